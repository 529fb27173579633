"""Partitions that Kafka's versions handle differently."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.support.broken_partitions import sample, with_crc32
from tests.support.segments import positions, with_bytes
from tools.kafka import SAMPLES
from tools.observe import Files

_KAFKA_2_8, _KAFKA_0_8 = SAMPLES / "kafka-2.8.2", SAMPLES / "kafka-0.8.2.2"
LAST_WRAPPERS = {
    path.name: path
    for path in (
        *(
            _KAFKA_2_8 / f"v{magic}-{codec}-0"
            for magic in (0, 1)
            for codec in ("gzip", "lz4", "snappy")
        ),
        *(_KAFKA_0_8 / f"real08-{codec}-0" for codec in ("gzip", "lz4", "snappy")),
    )
}


def undecodable(partition: Path, wrapper_index: int) -> Files:
    """A partition whose last log has a wrapper with a valid checksum that does not decompress.

    wrapper_index: -1 is the last wrapper.
    """
    files = dict(sample(partition))
    log = max(file for file in files if file.endswith(".log"))
    data = files[log]
    starts = positions(data)
    start, end = list(itertools.pairwise(starts))[wrapper_index]
    message = data[start:end]
    position = 35 if message[16] else 27  # after the first byte of the value
    changed = with_bytes(
        message, position, bytes(byte ^ 255 for byte in message[position : position + 8])
    )
    files[log] = data[:start] + with_crc32(changed) + data[end:]
    return files
