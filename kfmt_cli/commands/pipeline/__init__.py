"""pipeline: the same decoding on Spark, for any number of segments."""
