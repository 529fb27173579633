"""Checks of a log: of the headers of its batches, and of its records."""
