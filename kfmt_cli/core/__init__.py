"""Bytes: wire types, layouts, the compiled kernel. Knows no Kafka file and no screen."""
