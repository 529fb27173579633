"""Pairs segments, and files of tables, that are copies of the same partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kfmt_cli.arrow.export.exported_rows import PartitionFile, PartitionRowRange, is_exported_file
from kfmt_cli.broker.cluster.replica_comparison import ReplicaRelation
from kfmt_cli.checks.replica_comparison import ComparedRecord
from kfmt_cli.core.urls import format_display_name, is_path_or_subpath, path_in_listings
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.rows.documents import COMPARED_RANGE_ROW
from kfmt_cli.spark.pair_comparison import (
    REBATCHED_REASON,
    CopyPair,
    CopyToCompare,
    RangeStatus,
    SplitColumns,
)

MAX_ABSORBED_OFFSETS = 4096  # in an identical range between two explained ones
_COLUMN_NAMES = tuple(leaf.name for leaf in COMPARED_RANGE_ROW.leaves)
PartitionKey = tuple[str | None, int | None, str]
"""Topic and partition; without a topic, the directory under the root."""


def _find_copy_index(split: FileSplit, roots: Sequence[str]) -> int:
    """Which copy a file belongs to."""
    root_indexes = [i for i, root in enumerate(roots) if is_path_or_subpath(split.path, root)]
    return max(root_indexes, key=lambda i: len(roots[i]))


def _partition_key(split: FileSplit, root: str) -> PartitionKey:
    topic, partition = split.topic_partition
    if topic is None:
        return None, None, split.directory.removeprefix(root)
    return format_display_name(topic), partition, ""


def require_single_directory(paths: Iterable[str], splits: Iterable[FileSplit]) -> None:
    """Raise UsageError if a copy has segments of a partition in two directories, or if it contains
    the other one and nothing else."""
    roots = [path_in_listings(path) for path in paths]
    directory_by_key: dict[tuple[int, PartitionKey], str] = {}
    copy_indexes = set[int]()
    for split in splits:
        copy_index = _find_copy_index(split, roots)
        copy_indexes.add(copy_index)
        if is_exported_file(split):
            continue
        first_directory = directory_by_key.setdefault(
            (copy_index, _partition_key(split, roots[copy_index])), split.directory
        )
        if first_directory != split.directory:
            directories_text = (
                f"{format_display_name(first_directory)} and {format_display_name(split.directory)}"
            )
            raise UsageError(
                f"{directories_text} are the same partition: compare with one of them at a time"
            )
    outer_root, inner_root = sorted(roots, key=len)
    if is_path_or_subpath(inner_root, outer_root) and copy_indexes == {roots.index(inner_root)}:
        raise UsageError(
            f"{format_display_name(outer_root)}: all of its files are in "
            f"{format_display_name(inner_root)}: compare it with another copy"
        )


class CopyPairing:
    """Pairs the copies A and B of each partition. directory: has the stored batch columns."""

    def __init__(self, paths: Iterable[str], columns_directory: str) -> None:
        self._roots = [path_in_listings(path) for path in paths]
        self._columns_directory = columns_directory
        self._copies_by_side: tuple[dict[PartitionKey, CopyToCompare], ...] = {}, {}

    def add_result(self, split: FileSplit, result: dict[str, Any]) -> None:
        """Add the result of a split."""
        copy_index = _find_copy_index(split, self._roots)
        root, copy_by_key = self._roots[copy_index], self._copies_by_side[copy_index]
        for encoded_range in result.get("spans", ()):
            row_range = PartitionRowRange(*encoded_range)
            partition_key = row_range.topic, row_range.partition, ""
            copy = copy_by_key.setdefault(
                partition_key, CopyToCompare(format_display_name(root), is_table=True)
            )
            copy.table_files.append(
                PartitionFile(split.path, split.file_size, split.modified_ns, row_range)
            )
            copy.extend_offsets(row_range.first_offset, row_range.last_offset)
        if is_exported_file(split):
            return
        partition_key = _partition_key(split, root)
        copy = copy_by_key.setdefault(
            partition_key, CopyToCompare(format_display_name(split.directory))
        )
        offsets = result["offsets"] or (0, -1)
        columns_path = f"{self._columns_directory}/{result['file']}"
        first_batch = result["first"]
        end_batch = result["end"]
        copy.split_columns.append(
            SplitColumns(split, columns_path, first_batch, end_batch, *offsets)
        )
        copy.has_holes |= result["has_holes"]
        if result["offsets"]:
            copy.extend_offsets(*offsets)

    def iter_pairs(self) -> Iterator[CopyPair]:
        """Both copies of each partition that A or B has."""
        a_copies, b_copies = self._copies_by_side
        if len(a_copies) == len(b_copies) == 1:  # also if the copies have different names
            b_copies = dict(zip(a_copies, b_copies.values(), strict=True))
        for copy in (*a_copies.values(), *b_copies.values()):
            # The copy has no batches: everything before the active segment has been deleted.
            if copy.first_offset is None and copy.split_columns:
                copy.first_offset = copy.end_offset = max(
                    split_columns.split.base_offset_or_zero for split_columns in copy.split_columns
                )
        for partition_key in {**a_copies, **b_copies}:
            a_copy, b_copy = (
                copies.get(partition_key, CopyToCompare()) for copies in (a_copies, b_copies)
            )
            yield CopyPair(*partition_key[:2], a_copy, b_copy)


def merge_adjacent_rows(rows: Iterable[ComparedRecord]) -> Iterator[dict[str, Any]]:
    """The rows of `COMPARED_RANGE_ROW`, with each row that continues the previous one merged into
    it. Compaction leaves single batches unchanged, so a few identical offsets between explained
    ranges are merged with them."""
    pending_rows: list[dict[str, Any]] = []
    for row_values in rows:
        pending_rows.append(dict(zip(_COLUMN_NAMES, row_values, strict=True)))
        while len(pending_rows) > 1 and (
            _merge_continuing_row(pending_rows) or _merge_short_identical_row(pending_rows)
        ):
            pass
        if len(pending_rows) > 2:
            yield pending_rows.pop(0)
    yield from pending_rows


def _merge_continuing_row(pending_rows: list[dict[str, Any]]) -> bool:
    """Merge the last row into the previous one if it continues it; returns whether it does."""
    previous_row, last_row = pending_rows[-2:]
    key_columns = ("topic", "partition", "a", "b", "status", "relation", "why")
    if any(previous_row[name] != last_row[name] for name in key_columns):
        return False
    pending_rows[-2:] = [_merged_row(previous_row, last_row)]
    return True


def _merge_short_identical_row(pending_rows: list[dict[str, Any]]) -> bool:
    """Merge the last three rows if few identical offsets are between two explained ranges; returns
    whether they are."""
    explained_status = RangeStatus.EXPLAINED.value
    if (
        len(pending_rows) < 3
        or pending_rows[-3]["status"] != explained_status
        or pending_rows[-1]["status"] != explained_status
    ):
        return False
    partition_keys = {
        (row["topic"], row["partition"], row["a"], row["b"]) for row in pending_rows[-3:]
    }
    middle_row = pending_rows[-2]
    n_offsets = middle_row["last_offset"] - middle_row["first_offset"] + 1
    if (
        len(partition_keys) > 1
        or middle_row["status"] != RangeStatus.IDENTICAL.value
        or n_offsets > MAX_ABSORBED_OFFSETS
    ):
        return False
    compacted_fields = {"relation": ReplicaRelation.COMPACTED.value, "why": REBATCHED_REASON}
    merged_row = _merged_row(_merged_row(pending_rows[-3], middle_row), pending_rows[-1])
    pending_rows[-3:] = [{**merged_row, "status": explained_status, **compacted_fields}]
    return True


def _merged_row(first_row: dict[str, Any], last_row: dict[str, Any]) -> dict[str, Any]:
    batch_counts = {
        name: None if first_row[name] is None else first_row[name] + last_row[name]
        for name in ("a_batches", "b_batches")
    }
    last_offset = max(first_row["last_offset"], last_row["last_offset"])
    return {**first_row, "last_offset": last_offset, **batch_counts}
