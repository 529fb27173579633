"""encode-varint and decode-varint: varints as Kafka writes them, with the steps drawn."""
