"""Traces as drawings: what a person is shown of a run, as data, for any renderer."""
