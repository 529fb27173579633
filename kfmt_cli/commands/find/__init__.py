"""find: the segment, batch and byte of a record."""
