"""txn: the transactions in partitions."""
