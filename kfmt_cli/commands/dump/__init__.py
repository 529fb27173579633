"""dump: every field of every batch or record of a log."""
