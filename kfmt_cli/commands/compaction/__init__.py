"""compaction: predicts what the log cleaner keeps, and why a key is still there."""
