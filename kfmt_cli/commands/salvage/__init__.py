"""salvage: copies the undamaged batches of damaged logs into new logs."""
