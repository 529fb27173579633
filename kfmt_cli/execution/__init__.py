"""Distributing work over processes and hosts: cutting files and joining the results."""
