"""Decisions of the local runtime: no I/O, no clock."""
