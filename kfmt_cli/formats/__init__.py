"""The formats of Kafka's files as Layouts: no reading, no printing."""
