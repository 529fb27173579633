"""check: everything about the partitions under some paths, and the effect on a broker."""
