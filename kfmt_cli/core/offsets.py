"""The offsets that a partition can have."""

MAX_OFFSET = (1 << 63) - 1
