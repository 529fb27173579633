"""state: the current state in internal topics."""
