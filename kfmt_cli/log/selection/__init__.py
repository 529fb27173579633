"""The selection of batches and records of a log."""
