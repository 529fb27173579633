"""Streams: planning what each trigger reads, and detecting lost data."""
