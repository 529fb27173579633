"""The other tools, each as one process that does one job on one file.

python -m bench.peers aiokafka|kafka-python FILE [--deep]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main() -> None:
    peer, file, *options = sys.argv[1:]
    data = Path(file).read_bytes()
    batches = records = n_corrupt = 0
    reader = open_reader(peer, data)
    while True:
        batch = reader.next_batch()
        if batch is None:
            break
        batches += 1
        n_corrupt += not batch.validate_crc()
        if options:
            for _ in batch:
                records += 1
    sys.stdout.write(f"{batches} batches, {records} records, {n_corrupt} bad\n")


def open_reader(peer: str, data: bytes) -> Any:
    """The library's own reader of record batches."""
    if peer == "aiokafka":
        from aiokafka.record.memory_records import MemoryRecords
    else:
        from kafka.record.memory_records import MemoryRecords
    return MemoryRecords(data)


if __name__ == "__main__":
    main()
