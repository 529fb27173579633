"""The codecs of batches, framed as Kafka frames them, in both directions."""
