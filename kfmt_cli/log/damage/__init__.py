"""Damage in a log, and the search for the next undamaged batch."""
