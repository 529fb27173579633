"""Where an offset, a timestamp or a key is in the logs of a partition."""
