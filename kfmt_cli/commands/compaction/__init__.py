"""compaction: predicts what the log cleaner keeps, and explains why a key is still there."""
