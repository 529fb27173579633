"""report: an HTML page about a disk."""
