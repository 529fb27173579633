"""stat: statistics of logs."""
