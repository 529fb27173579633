"""Distributing work over processes and hosts: splitting files and merging the results."""
