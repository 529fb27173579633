"""Rows as files of a lake, each of which appears only when complete."""
