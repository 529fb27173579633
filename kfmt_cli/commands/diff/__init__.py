"""diff: compares two replicas of a partition."""
