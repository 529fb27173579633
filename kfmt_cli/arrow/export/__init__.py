"""Exports rows to files of a data lake, each of which appears only when complete."""
