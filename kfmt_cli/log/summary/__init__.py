"""Summaries of logs: statistics and shapes."""
