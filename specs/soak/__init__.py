"""A long run: several threads on one manager, under its lock."""
