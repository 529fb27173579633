"""replay: sends the records of logs to a live cluster."""
