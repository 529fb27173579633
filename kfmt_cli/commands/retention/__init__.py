"""retention: shows why segments are still on disk, and when they will be deleted."""
