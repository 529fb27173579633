"""A broker's settings and limits, with Kafka's defaults.

Source: `org.apache.kafka.storage.internals.log.LogConfig`.
"""

DEFAULT_INDEX_INTERVAL_BYTES = 4096
DEFAULT_SEGMENT_BYTES = 1 << 30
DEFAULT_SEGMENT_MS = 7 * 24 * 3600 * 1000
DEFAULT_SEGMENT_INDEX_BYTES = 10 << 20

MAX_SEGMENT_BYTES = (1 << 31) - 1  # the largest segment that a broker opens
DEFAULT_DEDUPE_BUFFER_BYTES = 128 << 20  # log.cleaner.dedupe.buffer.size
DEFAULT_TRANSACTION_MAX_TIMEOUT_MS = 15 * 60 * 1000  # transaction.max.timeout.ms
DEFAULT_PRODUCER_ID_EXPIRATION_MS = 24 * 3600 * 1000  # producer.id.expiration.ms
