"""Checks of a log: of its batch headers and of its records."""
