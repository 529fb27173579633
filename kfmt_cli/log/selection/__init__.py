"""Which batches and records of a log are wanted."""
