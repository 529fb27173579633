"""The brokers of a cluster together: elections, replicas that diverge."""
