"""replay: the records of logs into a live cluster."""
