"""Convert rows to text: tables, JSON, CSV."""
