"""Numbers about logs: statistics and shapes."""
