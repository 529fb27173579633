"""check: everything about the partitions below some paths, and what a broker would make of them."""
