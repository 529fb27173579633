"""Checks of the indexes of a segment."""
