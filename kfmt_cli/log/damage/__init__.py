"""Damage in a log, and the search for what follows it."""
