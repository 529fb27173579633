"""rebuild-index: the indexes that log recovery would write."""
