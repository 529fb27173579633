"""The metadata that Kafka Streams commits with an offset: the time of the partition's records.

Source: `org.apache.kafka.streams.processor.internals.TopicPartitionMetadata`.
"""

from __future__ import annotations

import base64

_SIZE = 9  # bytes of a version and a time; since version 2, more may follow
_VERSIONS = (1, 2)


def parse_stream_time(metadata: str | None) -> int | None:
    """The stream time in ms since the epoch, -1 if not known yet; None for other metadata."""
    if not metadata or len(metadata) < 4 * _SIZE // 3:
        return None
    try:
        data = base64.b64decode(metadata, validate=True)
    except ValueError:
        return None
    if len(data) < _SIZE or data[0] not in _VERSIONS or (data[0] == 1 and len(data) > _SIZE):
        return None
    return int.from_bytes(data[1:_SIZE], "big", signed=True)
