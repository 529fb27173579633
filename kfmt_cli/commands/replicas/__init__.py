"""replicas: compare the disks of a dead cluster, and predict the outcome of each start order."""
