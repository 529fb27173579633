"""Checks of a directory: of its names, and of its segments relative to each other."""
