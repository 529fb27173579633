"""Checks of a directory: of its names, and of its segments among one another."""
