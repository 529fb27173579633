"""Checks of what the batches of a partition tell over time: producers, transactions, leaders."""
