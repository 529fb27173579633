"""Producers and transactions, replayed from batches as a broker does."""
