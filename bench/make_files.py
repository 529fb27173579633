"""Big segments out of real ones: a real MiB again and again, its base offsets rewritten.

The base offset lies outside the checksum, so every batch stays valid.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SEEDS = HERE / "seeds"
NAME = "00000000000000000000.log"
MIB = 1 << 20


@dataclass(frozen=True)
class Spec:
    """A file to make."""

    name: str
    seed: str
    """The real segment."""
    size: int
    """Bytes that it takes, roughly."""


FULL = [
    Spec("none-0", "none.log", 428 * MIB),
    Spec("lz4-0", "lz4.log", 157 * MIB),
    Spec("zstd-0", "zstd.log", 110 * MIB),
    Spec("tiny-0", "tiny.log", 129 * MIB),
]
SMOKE = [Spec(f"smoke-{spec.name}", spec.seed, 4 * MIB) for spec in FULL]


def make(spec: Spec, folder: Path) -> Path:
    """The file, made when it is not there yet; kafka-dump-log needs a broker's name."""
    file = folder / spec.name / NAME
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    data, batches = whole_batches((SEEDS / spec.seed).read_bytes())
    temporary = file.with_suffix(".tmp")
    offset = written = 0
    with temporary.open("wb") as out:
        while written < spec.size:
            for at, n_offsets in batches:
                struct.pack_into(">q", data, at, offset)
                offset += n_offsets
            written += out.write(data)
    temporary.replace(file)
    return file


def whole_batches(seed: bytes) -> tuple[bytearray, list[tuple[int, int]]]:
    """The bytes up to the last whole batch; where each begins and how many offsets it takes."""
    at = 0
    batches = []
    while at + 61 <= len(seed):
        (length,) = struct.unpack_from(">i", seed, at + 8)
        if at + 12 + length > len(seed):
            break
        (last_delta,) = struct.unpack_from(">i", seed, at + 23)
        batches.append((at, last_delta + 1))
        at += 12 + length
    return bytearray(seed[:at]), batches


SEGMENT_BYTES = 36 << 10
SEGMENTS = 7  # of a partition
PARTITIONS = 4000


def make_thousand(folder: Path, segments: int = 1000) -> Path:
    """A partition of so many segments of 1 MiB with their indexes."""
    return _make(folder / f"segments-{segments}", 1, segments, MIB)


def make_many(folder: Path, partitions: int = PARTITIONS) -> Path:
    """A log directory of many small segments with their indexes, made when it is not there yet."""
    return _make(folder / f"many-{partitions}", partitions, SEGMENTS, SEGMENT_BYTES)


def _make(top: Path, partitions: int, segments: int, segment_bytes: int) -> Path:
    if (top / "complete").exists():
        return top / "logs"
    data, batches = whole_batches((SEEDS / "none.log").read_bytes())
    ends = [at for at, _ in batches[1:]] + [len(data)]
    here = 0
    for partition in range(partitions):
        place = top / "logs" / f"topic{partition // 40:03}-{partition % 40}"
        place.mkdir(parents=True, exist_ok=True)
        offset = 0
        for _ in range(segments):
            here, offset = _segment(place, data, batches, ends, here, offset, segment_bytes)
    (top / "complete").touch()
    return top / "logs"


def _segment(
    place: Path,
    data: bytearray,
    batches: list[tuple[int, int]],
    ends: list[int],
    first: int,
    offset: int,
    segment_bytes: int,
) -> tuple[int, int]:
    """Write a segment of batches `first`…; where the next one begins, and its offset."""
    from kfmt_cli.broker.index_builder import IndexBuilder

    base, start, last = offset, batches[first][0], first
    positions, last_offsets, times = [], [], []
    while last < len(batches) and ends[last] - start <= segment_bytes:
        at, n_offsets = batches[last]
        struct.pack_into(">q", data, at, offset)
        offset += n_offsets
        positions.append(at - start)
        last_offsets.append(offset - 1)
        times.append(struct.unpack_from(">q", data, at + 35)[0])
        last += 1
    stem = f"{base:020}"
    (place / f"{stem}.log").write_bytes(data[start : ends[last - 1]])
    index = IndexBuilder(base)
    index.add(np.array(positions), np.array(last_offsets), np.array(times))
    (place / f"{stem}.index").write_bytes(index.offset_index())
    (place / f"{stem}.timeindex").write_bytes(index.time_index())
    return (0 if last + 4 >= len(batches) else last), offset
