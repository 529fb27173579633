"""Checks: they read columns and report findings."""
