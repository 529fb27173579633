"""Checks of a partition's history in its batches: producers, transactions, leaders."""
