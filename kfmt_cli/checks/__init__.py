"""Checks: columns in, findings out."""
