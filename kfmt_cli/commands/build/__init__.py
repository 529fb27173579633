"""build: segments from JSON Lines or Parquet."""
