"""Inductive proofs: the ordinary source of model and subjects, run on symbolic keys over any number of blocks."""
