"""Partitions made of the files of an export, and compared with them."""
