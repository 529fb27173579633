"""Broker behaviour as functions over facts: lookups, indexes, producers, rolling, recovery."""
