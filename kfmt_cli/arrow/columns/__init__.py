"""Arrow columns from tables and rows, and back."""
