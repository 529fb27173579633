"""Restores partitions from the files of an export, and compares partitions with them."""
