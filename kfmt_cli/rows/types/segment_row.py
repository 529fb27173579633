"""Summary of a log: numbers that are merged block by block and part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.rows.log_tables import BatchTable

SegmentNumbers = dict[str, int | None]
MergeFunction = Callable[[int, int], int]


# The functions that merge the numbers of two consecutive parts of a log. magics, codecs: a bit for
# each that occurs.
MERGE_BY_NUMBER: Mapping[str, MergeFunction] = {
    "batches": int.__add__,
    "records": int.__add__,
    "first_offset": lambda left, _: left,
    "last_offset": lambda _, right: right,
    "min_timestamp": min,
    "max_timestamp": max,
    "magics": int.__or__,
    "codecs": int.__or__,
    "errors": int.__add__,
    "warnings": int.__add__,
    "notes": int.__add__,
}
EMPTY_NUMBERS: SegmentNumbers = {
    name: 0 if merge in (int.__add__, int.__or__) else None
    for name, merge in MERGE_BY_NUMBER.items()
}


def merge_numbers(left: SegmentNumbers, right: SegmentNumbers) -> SegmentNumbers:
    """The merged numbers of two consecutive parts of a log."""
    result: SegmentNumbers = {}
    for name, merge in MERGE_BY_NUMBER.items():
        a, b = left[name], right[name]
        result[name] = merge(a, b) if a is not None and b is not None else b if a is None else a
    return result


def summarize_batches(batches: BatchTable) -> SegmentNumbers:
    """The numbers of a block's batches."""
    if not len(batches):
        return dict(EMPTY_NUMBERS)
    has_time = (batches.has_timestamp == 1) & (batches.max_timestamp >= 0)
    timestamps = batches.max_timestamp[has_time]
    return {
        **EMPTY_NUMBERS,
        "batches": len(batches),
        "records": int(batches.record_counts.sum()),
        "first_offset": int(batches.base_offset[0]),
        "last_offset": int(batches.last_offset[-1]),
        "min_timestamp": int(timestamps.min()) if len(timestamps) else None,
        "max_timestamp": int(timestamps.max()) if len(timestamps) else None,
        "magics": int(np.bitwise_or.reduce(1 << batches.magic.clip(0, 2))),
        "codecs": int(np.bitwise_or.reduce(1 << batches.compression)),
    }


def file_numbers(
    batches: BatchTable, file_index: IntArray, n_files: int
) -> Iterator[SegmentNumbers]:
    """The numbers of several files. file_index: the file of each batch, in order."""
    starts = np.searchsorted(file_index, np.arange(n_files)).tolist()
    ends = np.searchsorted(file_index, np.arange(n_files), side="right").tolist()
    for first, end in zip(starts, ends, strict=True):
        yield summarize_batches(BatchTable(batches.index_by_name, batches.data[:, first:end]))


def bit_names(mask: int | None, names: tuple[str, ...]) -> list[str]:
    """The names whose bits are set."""
    return [name for i, name in enumerate(names) if (mask or 0) >> i & 1]
