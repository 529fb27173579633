"""Builds segments from JSON lines of records and batches."""
