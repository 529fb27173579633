"""Rows in, text out: tables, JSON, CSV."""
