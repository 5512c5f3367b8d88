"""What the command line takes: options, checked and handed on to modules that are imported only then."""
