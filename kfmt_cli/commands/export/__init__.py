"""export: records and batches as Parquet, without Spark and without Java."""
