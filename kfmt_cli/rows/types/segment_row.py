"""Summary of a log: numbers that are merged block by block and part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.rows.log_tables import BatchTable

Numbers = dict[str, int | None]
Merge = Callable[[int, int], int]


# How the numbers of two consecutive parts of a log are merged. magics, codecs: a bit for each that
# occurs.
MERGED: Mapping[str, Merge] = {
    "batches": int.__add__,
    "records": int.__add__,
    "first_offset": lambda one, _: one,
    "last_offset": lambda _, other: other,
    "min_timestamp": min,
    "max_timestamp": max,
    "magics": int.__or__,
    "codecs": int.__or__,
    "errors": int.__add__,
    "warnings": int.__add__,
    "notes": int.__add__,
}
NOTHING: Numbers = {
    name: 0 if merge in (int.__add__, int.__or__) else None for name, merge in MERGED.items()
}


def merged(one: Numbers, other: Numbers) -> Numbers:
    """The merged numbers of two consecutive parts of a log."""
    done: Numbers = {}
    for name, merge in MERGED.items():
        a, b = one[name], other[name]
        done[name] = merge(a, b) if a is not None and b is not None else b if a is None else a
    return done


def numbers_of(batches: BatchTable) -> Numbers:
    """The numbers of a block's batches."""
    if not len(batches):
        return dict(NOTHING)
    timed = (batches.has_timestamp == 1) & (batches.max_timestamp >= 0)
    times = batches.max_timestamp[timed]
    return {
        **NOTHING,
        "batches": len(batches),
        "records": int(batches.counted_records.sum()),
        "first_offset": int(batches.base_offset[0]),
        "last_offset": int(batches.last_offset[-1]),
        "min_timestamp": int(times.min()) if len(times) else None,
        "max_timestamp": int(times.max()) if len(times) else None,
        "magics": int(np.bitwise_or.reduce(1 << batches.magic.clip(0, 2))),
        "codecs": int(np.bitwise_or.reduce(1 << batches.compression)),
    }


def numbers_of_files(batches: BatchTable, owner: IntArray, n_files: int) -> Iterator[Numbers]:
    """The numbers of several files. owner: the file of each batch, in order."""
    firsts = np.searchsorted(owner, np.arange(n_files)).tolist()
    ends = np.searchsorted(owner, np.arange(n_files), side="right").tolist()
    for first, end in zip(firsts, ends, strict=True):
        yield numbers_of(BatchTable(batches.names, batches.data[:, first:end]))


def names_of(bits: int | None, names: tuple[str, ...]) -> list[str]:
    """The names whose bits are set."""
    return [name for i, name in enumerate(names) if (bits or 0) >> i & 1]
