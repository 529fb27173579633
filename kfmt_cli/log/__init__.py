"""Reading a log: blocks of batches, records, and what to make of damage."""
