"""What of a damaged log is saved, and where it goes."""
