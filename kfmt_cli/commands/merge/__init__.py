"""merge: one undamaged log of each partition out of several damaged replicas."""
