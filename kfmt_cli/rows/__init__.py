"""Rows shown by every output: row types, derived once from the Layouts."""
