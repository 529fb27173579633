"""Checks of a directory: its names, and its segments relative to each other."""
