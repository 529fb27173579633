"""Rules for each entry of an index: one table, for single segments and for groups of small ones.

The rules are valid for every broker version, to avoid findings about healthy indexes: leaders,
followers, the log cleaner, recovery, and old and new brokers all write different entries. Source:
`org.apache.kafka.storage.internals.log.OffsetIndex`, `TimeIndex`, `LogSegment`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table, TableColumn
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    TIME_INDEX_KIND,
    TRANSACTION_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import FileKind
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import FindingCode
from kfmt_cli.rows.log_tables import EntryTable


class EntryTargets(Table):
    """Facts from the log about the byte that an entry points to."""

    __slots__ = ()

    is_batch_start = TableColumn()
    """1 if a batch starts there; the other columns describe this batch."""
    batch_number = TableColumn()
    base_offset = TableColumn()
    last_offset = TableColumn()
    in_damage = TableColumn()


class OffsetBatches(Table):
    """Facts from the log about the batch that contains an entry's offset, or the first after it."""

    __slots__ = ()

    contains_offset = TableColumn()
    """1 if it contains the offset."""
    position = TableColumn()
    batch_number = TableColumn()
    max_timestamp = TableColumn()
    previous_max_timestamp = TableColumn()
    """The largest timestamp before it in the log."""
    has_record = TableColumn()
    """1 if a record in it has the entry's offset and timestamp."""


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """The entries of an index, and facts from the log about each. In a group of small
    segments, the numbers of a segment are arrays with one value per entry."""

    table: EntryTable
    """The rows of the index."""
    targets: EntryTargets
    """For an offset index."""
    batches: OffsetBatches
    """For an offset index or a time index."""
    is_not_marker: BoolArray
    """For a transaction index, the entries whose last offset is not an ABORT marker."""
    log_size: int | IntArray
    """Bytes of the log."""
    base_offset: int | IntArray
    """The segment's base offset."""
    last_offset: int | IntArray
    """The segment's last offset."""
    is_log_damaged: bool = False
    """Whether the log is damaged, so that its last offset is not a bound."""

    @property
    def segment_offsets_text(self) -> str:
        """The offsets of the segment."""
        if self.last_offset < self.base_offset:
            return "no offset"
        return f"{self.base_offset}–{self.last_offset}"


@dataclass(frozen=True, slots=True)
class EntryRule:
    """A rule for an entry."""

    code: FindingCode
    """The code of the finding."""
    is_broken: Callable[[IndexEntries], BoolArray]
    """The entries that break it."""
    format_message: Callable[[IndexEntries, int], str]
    """The message about such an entry, by its row."""
    column: str
    """The column with the invalid value."""
    expected: str | Callable[[IndexEntries, int], str | int]
    """The expected value, for all entries or for one."""

    def expected_value(self, entries: IndexEntries, row: int) -> str | int:
        """The expected value of an entry."""
        return self.expected if isinstance(self.expected, str) else self.expected(entries, row)


def _is_out_of_segment(entries: IndexEntries) -> BoolArray:
    is_outside: BoolArray = entries.table.relative_offset < 0
    return (
        is_outside
        if entries.is_log_damaged
        else is_outside | (entries.table.offset > entries.last_offset)
    )


def _format_no_marker(entries: IndexEntries, row: int) -> str:
    table = entries.table
    return (
        f"producer {table.producer_id[row]}: offset {table.last_offset[row]} is not one of its "
        "ABORT markers"
    )


def _format_position(entries: IndexEntries, row: int) -> str:
    return f"offset {entries.table.offset[row]} at byte {entries.table.log_position[row]}"


def _format_timestamp(entries: IndexEntries, row: int) -> str:
    return f"timestamp {entries.table.timestamp[row]} for offset {entries.table.offset[row]}"


def _format_out_of_segment(entries: IndexEntries, row: int) -> str:
    return (
        f"offset {entries.table.offset[row]}; the segment contains {entries.segment_offsets_text}"
    )


def _in_segment_rule(code: FindingCode) -> EntryRule:
    """The rule that an entry's offset is in the segment."""
    return EntryRule(
        code,
        _is_out_of_segment,
        _format_out_of_segment,
        "offset",
        lambda entries, _: entries.segment_offsets_text,
    )


# In order of application: an entry that breaks one rule has no findings for later ones.
ENTRY_RULES: dict[FileKind, tuple[EntryRule, ...]] = {
    OFFSET_INDEX_KIND: (
        EntryRule(
            codes.INDEX_POSITION_OUT_OF_LOG,
            lambda entries: (
                (entries.table.log_position <= 0) | (entries.table.log_position >= entries.log_size)
            ),
            lambda entries, i: (
                f"{_format_position(entries, i)}; the log has {entries.log_size} bytes"
            ),
            "log_position",
            lambda entries, _: f"1–{entries.log_size - 1}",
        ),
        _in_segment_rule(codes.INDEX_OFFSET_OUT_OF_SEGMENT),
        EntryRule(
            codes.INDEX_ENTRY_NOT_AT_BATCH,
            lambda entries: entries.targets.is_batch_start == 0,
            lambda entries, i: f"{_format_position(entries, i)}, where no batch starts",
            "log_position",
            "the first byte of a batch",
        ),
        EntryRule(
            codes.INDEX_OFFSET_BEFORE_BATCH,
            lambda entries: entries.targets.base_offset > entries.table.offset,
            lambda entries, i: (
                f"{_format_position(entries, i)}, where batch "
                f"{entries.targets.batch_number[i]} starts at offset "
                f"{entries.targets.base_offset[i]}"
            ),
            "offset",
            "the base offset of the batch at its position, or later",
        ),
        EntryRule(
            codes.INDEX_OFFSET_NOT_IN_LOG,
            lambda entries: (
                (entries.batches.contains_offset == 0)
                | (entries.batches.position < entries.table.log_position)
            ),
            lambda entries, i: (
                f"no batch from byte {entries.table.log_position[i]} onward contains offset "
                f"{entries.table.offset[i]}"
            ),
            "offset",
            "an offset of a batch",
        ),
    ),
    TIME_INDEX_KIND: (
        _in_segment_rule(codes.TIME_INDEX_OFFSET_OUT_OF_SEGMENT),
        EntryRule(
            codes.TIME_INDEX_OFFSET_NOT_IN_LOG,
            lambda entries: entries.batches.contains_offset == 0,
            lambda entries, i: f"no batch contains offset {entries.table.offset[i]}",
            "offset",
            "an offset of a batch",
        ),
        EntryRule(
            codes.TIME_INDEX_TIMESTAMP_NOT_IN_LOG,
            lambda entries: (
                (entries.batches.max_timestamp != entries.table.timestamp)
                & (entries.batches.has_record == 0)
            ),
            lambda entries, i: (
                f"{_format_timestamp(entries, i)}, whose batch "
                f"{entries.batches.batch_number[i]} has max "
                f"timestamp {entries.batches.max_timestamp[i]}"
            ),
            "timestamp",
            lambda entries, i: int(entries.batches.max_timestamp[i]),
        ),
        EntryRule(
            codes.TIME_INDEX_TIMESTAMP_NOT_LARGEST,
            lambda entries: entries.batches.previous_max_timestamp >= entries.table.timestamp,
            lambda entries, i: (
                f"{_format_timestamp(entries, i)}, but an earlier batch has "
                f"{entries.batches.previous_max_timestamp[i]}"
            ),
            "timestamp",
            "greater than in all earlier batches",
        ),
    ),
    TRANSACTION_INDEX_KIND: (
        EntryRule(
            codes.TRANSACTION_INDEX_VERSION,
            lambda entries: entries.table.version != 0,
            lambda entries, i: f"version {entries.table.version[i]}; only 0 is supported",
            "version",
            "0",
        ),
        EntryRule(
            codes.TRANSACTION_INDEX_NOT_A_MARKER,
            lambda entries: entries.is_not_marker,
            _format_no_marker,
            "last_offset",
            "the offset of an ABORT marker",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class OrderRule:
    """A rule for the order of entries."""

    code: FindingCode
    """The code for an entry that does not come after the previous entry."""
    comparison_by_column: dict[str, np.ufunc]
    """By column, the comparison with the previous entry that must be false for every entry. Not a
    difference, which could overflow."""

    def is_broken(self, table: Table) -> BoolArray:
        """Which entries, from the second onward, do not come after the previous entry."""
        is_out_of_order = np.zeros(max(len(table) - 1, 0), np.bool_)
        for column_name, compare in self.comparison_by_column.items():
            is_out_of_order |= compare(table[column_name][1:], table[column_name][:-1])
        return is_out_of_order


ORDER_RULES = {
    OFFSET_INDEX_KIND: OrderRule(
        codes.INDEX_ENTRIES_NOT_INCREASING, {"offset": np.less_equal, "log_position": np.less_equal}
    ),
    TIME_INDEX_KIND: OrderRule(
        codes.TIME_INDEX_ENTRIES_NOT_INCREASING, {"timestamp": np.less_equal, "offset": np.less}
    ),
    TRANSACTION_INDEX_KIND: OrderRule(
        codes.TRANSACTION_INDEX_ENTRIES_NOT_INCREASING, {"last_offset": np.less_equal}
    ),
}


def is_after_target(entries: IndexEntries) -> BoolArray:
    """Which entries have an offset after the batch that they point to."""
    is_after: BoolArray = entries.table.offset > entries.targets.last_offset
    return is_after


def is_sparse(
    gap_bytes: IntArray, interval_bytes: int, max_batch_bytes: int | IntArray
) -> BoolArray:
    """Which gaps between entries, in bytes, exceed the interval by more than the largest batch."""
    is_wide: BoolArray = gap_bytes > interval_bytes + max_batch_bytes
    return is_wide


def is_time_index_short(
    last_timestamp: int | IntArray, max_timestamp: int | IntArray
) -> bool | BoolArray:
    """Whether the time index of a closed segment ends before the segment's largest timestamp."""
    return last_timestamp < max_timestamp
