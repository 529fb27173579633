"""Time indexes that do not fit their log, and timestamps to look up."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.broken_partitions import ORDERS, name, sample
from tools.observe import Files

TIMES = ".timeindex"
PROBES = (
    0,
    1699999999652,
    1700000300953,
    1700000480757,
    1700000598337,
    1700000719881,
    1700000719882,
    1700001442397,
    1700001480095,
    1700001501000,
    1700001501001,
)
"""Timestamps in each segment, at its ends, before and after all."""
LATE_MS = 1_800_000_000_000
OLD_MS = 1_500_000_000_000  # before all records


@dataclass(frozen=True)
class TimestampCase:
    """A partition with 1500 records and damaged indexes."""

    description: str
    files: Files
    modified: dict[str, int] = field(default_factory=dict)
    """Modification times, in milliseconds; the others are late."""


def timestamp_cases() -> Iterator[TimestampCase]:
    """Each kind of damage of a time index, in a closed and in the last segment."""
    files = sample(ORDERS)
    yield TimestampCase("undamaged", files)
    for base_offset in (480, 1440):
        log, index, offsets = (name(base_offset, suffix) for suffix in (".log", TIMES, ".index"))
        entries = list(struct.iter_unpack(">qi", files[index]))

        def changed(new: list[tuple[int, int]], index: str = index) -> Files:
            return {**files, index: b"".join(struct.pack(">qi", *entry) for entry in new)}

        at = f"of segment {base_offset}"
        yield TimestampCase(f"empty, {at}", changed([]))
        yield TimestampCase(f"empty, {at}, an old file", changed([]), {log: OLD_MS})
        without = {text: content for text, content in files.items() if text != index}
        yield TimestampCase(f"missing, {at}", without, {log: OLD_MS})
        yield TimestampCase(
            f"both missing, {at}",
            {text: content for text, content in without.items() if text != offsets},
            {log: OLD_MS},
        )
        last_offset = entries[-1][1]
        yield TimestampCase(f"zeros at the end, {at}", {**files, index: files[index] + bytes(24)})
        yield TimestampCase(f"late, {at}", changed([*entries[:-1], (1 << 60, last_offset)]))
        yield TimestampCase(f"early, {at}", changed([*entries[:-1], (5, last_offset)]))
        yield TimestampCase(f"ends early, {at}", changed(entries[:1]))
        yield TimestampCase(f"far offset, {at}", changed([(OLD_MS, last_offset), *entries[1:]]))
        yield TimestampCase(f"negative, {at}", changed([*entries[:-1], (-1, last_offset)]))
