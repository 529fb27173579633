"""The metadata that Kafka Streams commits with an offset: the time of the partition's records.

Source: `org.apache.kafka.streams.processor.internals.TopicPartitionMetadata`.
"""

from __future__ import annotations

import base64

_METADATA_BYTES = 9  # bytes of a version and a time; since version 2, more may follow
_METADATA_VERSIONS = (1, 2)


def parse_stream_time(metadata: str | None) -> int | None:
    """The stream time in ms since the epoch, -1 if not known yet; None for other metadata."""
    if not metadata or len(metadata) < 4 * _METADATA_BYTES // 3:
        return None
    try:
        metadata_bytes = base64.b64decode(metadata, validate=True)
    except ValueError:
        return None
    if (
        len(metadata_bytes) < _METADATA_BYTES
        or metadata_bytes[0] not in _METADATA_VERSIONS
        or (metadata_bytes[0] == 1 and len(metadata_bytes) > _METADATA_BYTES)
    ):
        return None
    return int.from_bytes(metadata_bytes[1:_METADATA_BYTES], "big", signed=True)
