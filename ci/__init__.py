"""How people run it: the command line, the gate, the reports."""
