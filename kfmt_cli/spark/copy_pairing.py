"""Pairs segments, and files of tables, that are copies of the same partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kfmt_cli.arrow.export.exported_rows import PartitionFile, PartitionRowRange, is_exported_file
from kfmt_cli.broker.cluster.replica_comparison import ReplicaRelation
from kfmt_cli.checks.replica_comparison import ComparisonRow
from kfmt_cli.core.urls import format_display_name, is_listed_below, listed_path
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.rows.types.compare_rows import COMPARED_RANGE_ROW, RangeStatus
from kfmt_cli.spark.pair_comparison import REBATCHED, CopyPair, CopyToCompare, SplitColumns

MAX_ABSORBED_OFFSETS = 4096  # in an identical range between two explained ones
_COLUMN_NAMES = tuple(leaf.name for leaf in COMPARED_RANGE_ROW.leaves)
CopyKey = tuple[str | None, int | None, str]
"""Topic and partition; without a topic, the directory under the root."""


def _copy_index(split: FileSplit, roots: Sequence[str]) -> int:
    """Which copy a file belongs to."""
    root_indexes = [i for i, root in enumerate(roots) if is_listed_below(split.path, root)]
    return max(root_indexes, key=lambda i: len(roots[i]))


def _copy_key(split: FileSplit, root: str) -> CopyKey:
    topic, partition = split.topic_partition
    if topic is None:
        return None, None, split.directory.removeprefix(root)
    return format_display_name(topic), partition, ""


def require_single_directory(paths: Iterable[str], splits: Iterable[FileSplit]) -> None:
    """Raise UsageError if a copy has segments of a partition in two directories."""
    roots = [listed_path(path) for path in paths]
    directory_by_key: dict[tuple[int, CopyKey], str] = {}
    for split in splits:
        copy_index = _copy_index(split, roots)
        if is_exported_file(split):
            continue
        first_directory = directory_by_key.setdefault(
            (copy_index, _copy_key(split, roots[copy_index])), split.directory
        )
        if first_directory != split.directory:
            both_directories = (
                f"{format_display_name(first_directory)} and {format_display_name(split.directory)}"
            )
            raise UsageError(
                f"{both_directories} are the same partition: compare with one of them at a time"
            )


class CopyPairing:
    """Pairs the copies A and B of each partition. directory: has the stored batch columns."""

    def __init__(self, paths: Iterable[str], directory: str) -> None:
        self._roots = [listed_path(path) for path in paths]
        self._columns_directory = directory
        self._copies_by_key: tuple[dict[CopyKey, CopyToCompare], ...] = {}, {}

    def add_result(self, split: FileSplit, result: dict[str, Any]) -> None:
        """Add the result of a split."""
        copy_index = _copy_index(split, self._roots)
        root, copies = self._roots[copy_index], self._copies_by_key[copy_index]
        for row in result.get("spans", ()):
            row_range = PartitionRowRange(*row)
            key = row_range.topic, row_range.partition, ""
            copy = copies.setdefault(key, CopyToCompare(format_display_name(root), is_table=True))
            copy.files.append(PartitionFile(split.path, split.size, split.modified, row_range))
            copy.extend_offsets(row_range.first_offset, row_range.last_offset)
        if is_exported_file(split):
            return
        key = _copy_key(split, root)
        copy = copies.setdefault(key, CopyToCompare(format_display_name(split.directory)))
        offsets = result["offsets"] or (0, -1)
        columns_path = f"{self._columns_directory}/{result['file']}"
        first_batch = result["first"]
        end_batch = result["end"]
        copy.splits.append(SplitColumns(split, columns_path, first_batch, end_batch, *offsets))
        copy.has_holes |= result["has_holes"]
        if result["offsets"]:
            copy.extend_offsets(*offsets)

    def pairs(self) -> Iterator[CopyPair]:
        """Both copies of each partition that A or B has."""
        a_copies, b_copies = self._copies_by_key
        if len(a_copies) == len(b_copies) == 1:  # also if the copies have different names
            b_copies = dict(zip(a_copies, b_copies.values(), strict=True))
        for copy in (*a_copies.values(), *b_copies.values()):
            # The copy has no batches: everything before the active segment has been deleted.
            if copy.first_offset is None and copy.splits:
                copy.first_offset = copy.end_offset = max(
                    columns.split.base for columns in copy.splits
                )
        for key in {**a_copies, **b_copies}:
            a_copy, b_copy = (copies.get(key, CopyToCompare()) for copies in (a_copies, b_copies))
            yield CopyPair(*key[:2], a_copy, b_copy)


def merge_adjacent_rows(rows: Iterable[ComparisonRow]) -> Iterator[dict[str, Any]]:
    """The rows of `COMPARED_RANGE_ROW`, with each row that continues the previous one merged into
    it. Compaction leaves single batches unchanged, so a few identical offsets between explained
    ranges are merged with them."""
    pending_rows: list[dict[str, Any]] = []
    for values in rows:
        pending_rows.append(dict(zip(_COLUMN_NAMES, values, strict=True)))
        while len(pending_rows) > 1 and (
            _merge_continuation(pending_rows) or _merge_surrounded(pending_rows)
        ):
            pass
        if len(pending_rows) > 2:
            yield pending_rows.pop(0)
    yield from pending_rows


def _merge_continuation(pending_rows: list[dict[str, Any]]) -> bool:
    """Merge the last row into the previous one if it continues it; returns whether it does."""
    previous, last = pending_rows[-2:]
    key_columns = ("topic", "partition", "a", "b", "status", "relation", "why")
    if any(previous[name] != last[name] for name in key_columns):
        return False
    pending_rows[-2:] = [_merged_row(previous, last)]
    return True


def _merge_surrounded(pending_rows: list[dict[str, Any]]) -> bool:
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
    compacted_fields = {"relation": ReplicaRelation.COMPACTED.value, "why": REBATCHED}
    merged_row = _merged_row(_merged_row(pending_rows[-3], middle_row), pending_rows[-1])
    pending_rows[-3:] = [{**merged_row, "status": explained_status, **compacted_fields}]
    return True


def _merged_row(first: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    batch_counts = {
        name: None if first[name] is None else first[name] + last[name]
        for name in ("a_batches", "b_batches")
    }
    last_offset = max(first["last_offset"], last["last_offset"])
    return {**first, "last_offset": last_offset, **batch_counts}
