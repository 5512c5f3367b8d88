"""Measuring subjects side by side: loads, what is measured of each, and the process that a subject is measured in."""
