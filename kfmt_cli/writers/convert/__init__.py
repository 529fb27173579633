"""Converts old message formats to batches of magic 2."""
