"""Indexes with one thing broken each, and the code that must be found."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Segment:
    """What a break may need to know: the log's size, its batches' (position, size, base offset,
    last offset, max timestamp), the segment's base offset."""

    size: int
    batches: list[tuple[int, int, int, int, int]]
    base: int


Entries = list[tuple[int, int]]
Break = Callable[[Entries, Segment], "Entries | None"]


def _set(entries: Entries, i: int, first: int | None = None, second: int | None = None) -> Entries:
    """The entries with one of them changed."""
    done = list(entries)
    a, b = done[i]
    done[i] = (a if first is None else first, b if second is None else second)
    return done


def _in_batch(entries: Entries, _: Segment) -> Entries:
    return _set(entries, 0, second=entries[0][1] + 1)


def _swapped(entries: Entries, _: Segment) -> Entries | None:
    return [entries[1], entries[0], *entries[2:]] if len(entries) > 1 else None


def _before_batch(entries: Entries, segment: Segment) -> Entries | None:
    bases = {batch[0]: batch[2] for batch in segment.batches}
    base = bases[entries[-1][1]] - segment.base
    low = entries[-2][0] + 1 if len(entries) > 1 else 0
    return _set(entries, -1, first=base - 1) if base - 1 >= low else None


def _gap(entries: Entries, segment: Segment) -> Entries | None:
    """An offset after the last entry's that fell between two batches."""
    start = entries[-1][1]
    behind = [batch for batch in segment.batches if batch[0] >= start]
    for before, after in pairwise(behind):
        if after[2] > before[3] + 1:
            return _set(entries, -1, first=before[3] + 1 - segment.base)
    return None


def _earlier_batch(_: Entries, segment: Segment) -> Entries | None:
    """The timestamp of a later record for an entry that a larger one comes before."""
    largest = -1
    for _position, _size, _base, last, time in segment.batches:
        if -1 < time <= largest:
            return [(time, last - segment.base)]
        largest = max(largest, time)
    return None


OFFSET_BREAKS: dict[str, tuple[Break, str]] = {
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
    "an offset before its batch": (_before_batch, "index-offset-before-batch"),
    "an offset that no batch holds": (_gap, "index-offset-not-in-log"),
}
TIME_BREAKS: dict[str, tuple[Break, str]] = {
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
    "a timestamp after a larger one": (_earlier_batch, "time-index-timestamp-not-largest"),
}


def unpacked(data: bytes, form: str) -> Entries:
    """The entries of an index without a zero tail."""
    return [(a, b) for a, b in struct.iter_unpack(form, data)]


def packed(entries: Entries, form: str) -> bytes:
    """The content of an index."""
    return b"".join(struct.pack(form, *entry) for entry in entries)
