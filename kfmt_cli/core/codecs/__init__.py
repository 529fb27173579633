"""Batch codecs with Kafka's framing: compression and decompression."""
