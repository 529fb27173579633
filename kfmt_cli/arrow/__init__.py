"""Rows as Arrow: schemas out of row types, columns without an object for a row."""
