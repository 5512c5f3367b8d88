"""The harnesses: integers, flags and short texts in, a truth value out. What is raised is a failure too."""
