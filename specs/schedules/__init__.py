"""Interleavings: two real threads on one manager, in every order that their steps can take, up to a bound."""
