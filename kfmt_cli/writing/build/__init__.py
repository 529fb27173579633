"""Records and batches as lines of JSON, and the segments that they become."""
