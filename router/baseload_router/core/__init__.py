"""Decisions of the router: no I/O, no clock, no randomness of its own."""
