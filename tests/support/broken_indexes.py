"""Damages of indexes, each with the finding code that the check must report."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Segment:
    """A segment as damages need it: the log's size, its batches' (position, size, base offset, last
    offset, max timestamp), the segment's base offset."""

    size: int
    batches: list[tuple[int, int, int, int, int]]
    base: int


Entries = list[tuple[int, int]]
EntryDamage = Callable[[Entries, Segment], "Entries | None"]


def _set(entries: Entries, i: int, first: int | None = None, second: int | None = None) -> Entries:
    """The entries with one of them changed."""
    edited = list(entries)
    old_first, old_second = edited[i]
    edited[i] = (old_first if first is None else first, old_second if second is None else second)
    return edited


def _in_batch(entries: Entries, _: Segment) -> Entries:
    return _set(entries, 0, second=entries[0][1] + 1)


def _swapped(entries: Entries, _: Segment) -> Entries | None:
    return [entries[1], entries[0], *entries[2:]] if len(entries) > 1 else None


def _offset_before_batch(entries: Entries, segment: Segment) -> Entries | None:
    base_offset_by_position = {batch[0]: batch[2] for batch in segment.batches}
    base_offset = base_offset_by_position[entries[-1][1]] - segment.base
    min_offset = entries[-2][0] + 1 if len(entries) > 1 else 0
    return _set(entries, -1, first=base_offset - 1) if base_offset - 1 >= min_offset else None


def _offset_in_gap(entries: Entries, segment: Segment) -> Entries | None:
    """An offset after the last entry's that is between two batches."""
    position = entries[-1][1]
    later_batches = [batch for batch in segment.batches if batch[0] >= position]
    for previous, following in pairwise(later_batches):
        if following[2] > previous[3] + 1:
            return _set(entries, -1, first=previous[3] + 1 - segment.base)
    return None


def _smaller_timestamp(_: Entries, segment: Segment) -> Entries | None:
    """A timestamp that is smaller than that of an earlier record."""
    max_timestamp = -1
    for _position, _size, _base, last_offset, timestamp in segment.batches:
        if -1 < timestamp <= max_timestamp:
            return [(timestamp, last_offset - segment.base)]
        max_timestamp = max(max_timestamp, timestamp)
    return None


OFFSET_BREAKS: dict[str, tuple[EntryDamage, str]] = {
    "two entries swapped": (_swapped, "index-entries-not-increasing"),
    "a position inside a batch": (_in_batch, "index-entry-not-at-batch"),
    "a position past the end": (
        lambda e, s: _set(e, -1, second=s.size + 100),
        "index-position-out-of-log",
    ),
    "a position at the end": (lambda e, s: _set(e, -1, second=s.size), "index-position-out-of-log"),
    "a negative position": (lambda e, s: _set(e, 0, second=-1), "index-position-out-of-log"),
    "position 0": (lambda e, s: _set(e, 0, second=0), "index-position-out-of-log"),
    "an offset after the log": (
        lambda e, s: _set(e, -1, first=s.batches[-1][3] - s.base + 1),
        "index-offset-out-of-segment",
    ),
    "a negative offset": (lambda e, s: _set(e, 0, first=-1), "index-offset-out-of-segment"),
    "an offset before its batch": (_offset_before_batch, "index-offset-before-batch"),
    "an offset that no batch holds": (_offset_in_gap, "index-offset-not-in-log"),
}
TIME_BREAKS: dict[str, tuple[EntryDamage, str]] = {
    "two entries swapped": (_swapped, "time-index-entries-not-increasing"),
    "a timestamp that nothing has": (
        lambda e, s: _set(e, -1, first=e[-1][0] + 1),
        "time-index-timestamp-not-in-log",
    ),
    "an offset after the log": (
        lambda e, s: _set(e, -1, second=s.batches[-1][3] - s.base + 1),
        "time-index-offset-out-of-segment",
    ),
    "a negative offset": (lambda e, s: _set(e, 0, second=-1), "time-index-offset-out-of-segment"),
    "a timestamp after a larger one": (_smaller_timestamp, "time-index-timestamp-not-largest"),
}


def unpack_entries(data: bytes, form: str) -> Entries:
    """The entries of an index without a zero tail."""
    return [(a, b) for a, b in struct.iter_unpack(form, data)]


def pack_entries(entries: Entries, form: str) -> bytes:
    """The content of an index."""
    return b"".join(struct.pack(form, *entry) for entry in entries)
