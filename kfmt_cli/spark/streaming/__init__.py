"""Streams: what each trigger reads, and what has been lost."""
