"""Bytes: wire types, layouts, the compiled kernel. Knows nothing of Kafka files or screens."""
