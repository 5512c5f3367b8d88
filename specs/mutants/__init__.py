"""Seeded defects: copies of the built-in implementation, each with one known defect that a search must find."""
