"""replicas: the disks of a dead cluster side by side, and what each order of starts does."""
