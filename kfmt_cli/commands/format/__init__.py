"""format: the reference of the formats."""
