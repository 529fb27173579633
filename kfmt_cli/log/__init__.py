"""Reading a log: blocks of batches, records, and damage."""
