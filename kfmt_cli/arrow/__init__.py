"""Rows as Arrow data: schemas from row types, and columns without an object per row."""
