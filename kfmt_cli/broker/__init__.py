"""Broker behaviour, computed from files: lookups, indexes, producers, rolling, recovery."""
