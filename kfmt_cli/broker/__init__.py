"""What a broker does: look-ups, indexes, producers, rolling, recovery, as functions over facts."""
