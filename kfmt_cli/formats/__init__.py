"""The formats of Kafka's files as tables: no reading, no printing."""
