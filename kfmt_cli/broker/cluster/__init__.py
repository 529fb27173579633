"""Rules that involve several brokers of a cluster: elections and diverging replicas."""
