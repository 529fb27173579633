"""Find offsets, timestamps and keys in the logs of a partition."""
