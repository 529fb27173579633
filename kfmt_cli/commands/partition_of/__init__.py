"""partition-of: the partition of a key, or of a group or transactional id."""
