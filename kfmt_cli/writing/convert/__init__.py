"""Old message formats as batches of magic 2."""
