"""The start of a broker: the logs that it truncates, the files that it deletes or fails on."""
