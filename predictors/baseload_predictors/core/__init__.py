"""Decisions of the predictor: no I/O, no clock."""
