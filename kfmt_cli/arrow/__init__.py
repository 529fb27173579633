"""Rows as Arrow: schemas from row types, columns without an object per row."""
