"""Large segments made of real ones: a real MiB repeated, with rewritten base offsets.

The base offset lies outside the checksum, so every batch stays valid.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BENCH_DIRECTORY = Path(__file__).resolve().parent
SEEDS = BENCH_DIRECTORY / "seeds"
NAME = "00000000000000000000.log"
MIB = 1 << 20


@dataclass(frozen=True)
class Spec:
    """A file to create."""

    name: str
    seed: str
    """The real segment."""
    size: int
    """Approximate size in bytes."""


FULL = [
    Spec("none-0", "none.log", 428 * MIB),
    Spec("lz4-0", "lz4.log", 157 * MIB),
    Spec("zstd-0", "zstd.log", 110 * MIB),
    Spec("tiny-0", "tiny.log", 129 * MIB),
]
SMOKE = [Spec(f"smoke-{spec.name}", spec.seed, 4 * MIB) for spec in FULL]


def make_file(spec: Spec, directory: Path) -> Path:
    """The file, created if it does not exist; kafka-dump-log needs a broker's file name."""
    file = directory / spec.name / NAME
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    data, batches = complete_batches((SEEDS / spec.seed).read_bytes())
    temporary = file.with_suffix(".tmp")
    offset = n_written = 0
    with temporary.open("wb") as output:
        while n_written < spec.size:
            for position, n_offsets in batches:
                struct.pack_into(">q", data, position, offset)
                offset += n_offsets
            n_written += output.write(data)
    temporary.replace(file)
    return file


def complete_batches(seed: bytes) -> tuple[bytearray, list[tuple[int, int]]]:
    """The bytes up to the last complete batch; each batch's position and number of offsets."""
    position = 0
    batches = []
    while position + 61 <= len(seed):
        (length,) = struct.unpack_from(">i", seed, position + 8)
        if position + 12 + length > len(seed):
            break
        (last_delta,) = struct.unpack_from(">i", seed, position + 23)
        batches.append((position, last_delta + 1))
        position += 12 + length
    return bytearray(seed[:position]), batches


SEGMENT_BYTES = 36 << 10
SEGMENTS = 7  # of a partition
PARTITIONS = 4000


def make_thousand(directory: Path, segments: int = 1000) -> Path:
    """A partition of segments of 1 MiB with their indexes."""
    return _make_logs(directory / f"segments-{segments}", 1, segments, MIB)


def make_many(directory: Path, partitions: int = PARTITIONS) -> Path:
    """A log directory of many small segments with their indexes, created if it does not exist."""
    return _make_logs(directory / f"many-{partitions}", partitions, SEGMENTS, SEGMENT_BYTES)


def _make_logs(root: Path, partitions: int, segments: int, segment_bytes: int) -> Path:
    if (root / "complete").exists():
        return root / "logs"
    data, batches = complete_batches((SEEDS / "none.log").read_bytes())
    ends = [position for position, _ in batches[1:]] + [len(data)]
    first_batch = 0
    for partition in range(partitions):
        partition_directory = root / "logs" / f"topic{partition // 40:03}-{partition % 40}"
        partition_directory.mkdir(parents=True, exist_ok=True)
        offset = 0
        for _ in range(segments):
            first_batch, offset = _write_segment(
                partition_directory, data, batches, ends, first_batch, offset, segment_bytes
            )
    (root / "complete").touch()
    return root / "logs"


def _write_segment(
    directory: Path,
    data: bytearray,
    batches: list[tuple[int, int]],
    ends: list[int],
    first_batch: int,
    offset: int,
    segment_bytes: int,
) -> tuple[int, int]:
    """Write a segment; returns the first batch of the next segment and its offset."""
    from kfmt_cli.broker.log_recovery import IndexBuilder

    base, start, batch_index = offset, batches[first_batch][0], first_batch
    positions, last_offsets, times = [], [], []
    while batch_index < len(batches) and ends[batch_index] - start <= segment_bytes:
        position, n_offsets = batches[batch_index]
        struct.pack_into(">q", data, position, offset)
        offset += n_offsets
        positions.append(position - start)
        last_offsets.append(offset - 1)
        times.append(struct.unpack_from(">q", data, position + 35)[0])
        batch_index += 1
    name = f"{base:020}"
    (directory / f"{name}.log").write_bytes(data[start : ends[batch_index - 1]])
    index = IndexBuilder(base)
    index.add_batches(np.array(positions), np.array(last_offsets), np.array(times))
    (directory / f"{name}.index").write_bytes(index.encode_offset_index())
    (directory / f"{name}.timeindex").write_bytes(index.encode_time_index())
    return (0 if batch_index + 4 >= len(batches) else batch_index), offset
