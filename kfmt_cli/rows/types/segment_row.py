"""The summary of a log, merged block by block and part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.offset_order import in_order_mask

SegmentSummary = dict[str, int | None]
MergeFunction = Callable[[int, int], int]


# The functions that merge the numbers of two consecutive parts of a log. magics, codecs: a bit for
# each that occurs.
MERGE_FUNCTION_BY_NAME: Mapping[str, MergeFunction] = {
    "batches": int.__add__,
    "records": int.__add__,
    "last_offset": lambda _, right: right,
    "min_timestamp": min,
    "max_timestamp": max,
    "magics": int.__or__,
    "codecs": int.__or__,
    "errors": int.__add__,
    "warnings": int.__add__,
    "notes": int.__add__,
}
EMPTY_SUMMARY: SegmentSummary = {
    "first_offset": None,
    **{
        name: 0 if merge in (int.__add__, int.__or__) else None
        for name, merge in MERGE_FUNCTION_BY_NAME.items()
    },
}


def merge_summaries(left: SegmentSummary, right: SegmentSummary) -> SegmentSummary:
    """The merged summary of two consecutive parts of a log."""
    merged: SegmentSummary = {
        "first_offset": (left if left["batches"] else right)["first_offset"],
    }
    for name, merge_values in MERGE_FUNCTION_BY_NAME.items():
        left_value, right_value = left[name], right[name]
        merged[name] = (
            merge_values(left_value, right_value)
            if left_value is not None and right_value is not None
            else right_value
            if left_value is None
            else left_value
        )
    return merged


def summarize_batches(batches: BatchTable) -> SegmentSummary:
    """The summary of a block's batches. A wrapper's header does not contain its first offset."""
    if not len(batches):
        return dict(EMPTY_SUMMARY)
    time_mask = (batches.has_timestamp == 1) & (batches.max_timestamp >= 0)
    timestamps = batches.max_timestamp[time_mask]
    in_order_rows = np.flatnonzero(in_order_mask(batches))
    first_row, last_row = in_order_rows[[0, -1]] if len(in_order_rows) else (None, None)
    has_first_offset = first_row is not None and batches.has_base_offset[first_row]
    return {
        **EMPTY_SUMMARY,
        "batches": len(batches),
        "records": int(batches.record_counts.sum()),
        "first_offset": int(batches.base_offset[first_row]) if has_first_offset else None,
        "last_offset": None if last_row is None else int(batches.last_offset[last_row]),
        "min_timestamp": int(timestamps.min()) if len(timestamps) else None,
        "max_timestamp": int(timestamps.max()) if len(timestamps) else None,
        "magics": int(np.bitwise_or.reduce(1 << batches.magic.clip(0, 2))),
        "codecs": int(np.bitwise_or.reduce(1 << batches.compression)),
    }


def summarize_files(
    batches: BatchTable, batch_file_indexes: IntArray, n_files: int
) -> Iterator[SegmentSummary]:
    """The summaries of several files. batch_file_indexes: the file of each batch, in order."""
    first_batches = np.searchsorted(batch_file_indexes, np.arange(n_files)).tolist()
    end_batches = np.searchsorted(batch_file_indexes, np.arange(n_files), side="right").tolist()
    for first_batch, end_batch in zip(first_batches, end_batches, strict=True):
        yield summarize_batches(
            BatchTable(batches.index_by_name, batches.data[:, first_batch:end_batch])
        )


def names_of_set_bits(mask: int | None, names: tuple[str, ...]) -> list[str]:
    """The names whose bits are set."""
    return [name for i, name in enumerate(names) if (mask or 0) >> i & 1]
