"""cat: records as a stream for other programs."""
