"""Rules for each entry of an index: one table, for single segments and packs.

The rules are valid for every broker version, to avoid findings about healthy indexes: leaders,
followers, the log cleaner, recovery, and old and new brokers all write different entries. Source:
`org.apache.kafka.storage.internals.log.OffsetIndex`, `TimeIndex`, `LogSegment`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray, Table, TableColumn
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.finding import Code
from kfmt_cli.rows.log_tables import EntryTable


class AtBatch(Table):
    """Facts from the log about the byte that an entry points to."""

    __slots__ = ()

    starts = TableColumn()
    """1 if a batch starts there; the others are about this batch."""
    number = TableColumn()
    base_offset = TableColumn()
    last_offset = TableColumn()
    in_damage = TableColumn()


class Holder(Table):
    """Facts from the log about the batch that contains an entry's offset, or the first after it."""

    __slots__ = ()

    held = TableColumn()
    """1 if it contains the offset."""
    position = TableColumn()
    number = TableColumn()
    max_timestamp = TableColumn()
    earlier_max = TableColumn()
    """The largest timestamp before it in the log."""
    of_record = TableColumn()
    """1 if a record in it has the entry's offset and timestamp."""


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """The entries of an index, and facts from the log about each. In a pack, the numbers of a
    segment are arrays with one value per entry."""

    table: EntryTable
    """The rows of the index."""
    at: AtBatch
    """For an offset index."""
    holder: Holder
    """For an offset index or a time index."""
    not_markers: BoolArray
    """For a transaction index, the entries whose last offset is not an ABORT marker."""
    log_size: int | IntArray
    """Bytes of the log."""
    base: int | IntArray
    """The segment's base offset."""
    last: int | IntArray
    """The segment's last offset."""
    damaged: bool = False
    """Whether the log is damaged, so that its last offset is not a bound."""

    @property
    def range_words(self) -> str:
        """The offsets of the segment."""
        return f"{self.base}–{self.last}"


@dataclass(frozen=True, slots=True)
class EntryRule:
    """A rule for an entry."""

    code: Code
    """The code of the finding."""
    is_broken: Callable[[IndexEntries], BoolArray]
    """The entries that break it."""
    words: Callable[[IndexEntries, int], str]
    """The message about such an entry, by its row."""
    found: str
    """The column that is wrong."""
    expected: str | Callable[[IndexEntries, int], str | int]
    """The expected value, for all entries or for one."""

    def expected_of(self, entries: IndexEntries, i: int) -> str | int:
        """The expected value of an entry."""
        return self.expected if isinstance(self.expected, str) else self.expected(entries, i)


def _out_of_segment(entries: IndexEntries) -> BoolArray:
    out: BoolArray = entries.table.relative_offset < 0
    return out if entries.damaged else out | (entries.table.offset > entries.last)


def _no_marker_words(entries: IndexEntries, i: int) -> str:
    table = entries.table
    return (
        f"producer {table.producer_id[i]}: offset {table.last_offset[i]} is not one of its "
        "ABORT markers"
    )


def _place(entries: IndexEntries, i: int) -> str:
    return f"offset {entries.table.offset[i]} at byte {entries.table.log_position[i]}"


def _time(entries: IndexEntries, i: int) -> str:
    return f"timestamp {entries.table.timestamp[i]} for offset {entries.table.offset[i]}"


def _outside_words(entries: IndexEntries, i: int) -> str:
    return f"offset {entries.table.offset[i]}; the segment contains {entries.range_words}"


def _in_segment(code: Code) -> EntryRule:
    """The rule that an entry's offset is in the segment."""
    return EntryRule(
        code, _out_of_segment, _outside_words, "offset", lambda entries, _: entries.range_words
    )


# In order of application: an entry that breaks one rule has no findings for later ones.
RULES: dict[Kind, tuple[EntryRule, ...]] = {
    OFFSET_INDEX: (
        EntryRule(
            codes.INDEX_POSITION_OUT_OF_LOG,
            lambda entries: (
                (entries.table.log_position <= 0) | (entries.table.log_position >= entries.log_size)
            ),
            lambda entries, i: f"{_place(entries, i)}; the log has {entries.log_size} bytes",
            "log_position",
            lambda entries, _: f"1–{entries.log_size - 1}",
        ),
        _in_segment(codes.INDEX_OFFSET_OUT_OF_SEGMENT),
        EntryRule(
            codes.INDEX_NOT_AT_BATCH,
            lambda entries: entries.at.starts == 0,
            lambda entries, i: f"{_place(entries, i)}, where no batch starts",
            "log_position",
            "the first byte of a batch",
        ),
        EntryRule(
            codes.INDEX_OFFSET_BEFORE_BATCH,
            lambda entries: entries.at.base_offset > entries.table.offset,
            lambda entries, i: (
                f"{_place(entries, i)}, where batch {entries.at.number[i]} starts at offset "
                f"{entries.at.base_offset[i]}"
            ),
            "offset",
            "the base offset of the batch at its position, or later",
        ),
        EntryRule(
            codes.INDEX_OFFSET_NOT_IN_LOG,
            lambda entries: (
                (entries.holder.held == 0) | (entries.holder.position < entries.table.log_position)
            ),
            lambda entries, i: (
                f"no batch from byte {entries.table.log_position[i]} onward contains offset "
                f"{entries.table.offset[i]}"
            ),
            "offset",
            "an offset of a batch",
        ),
    ),
    TIME_INDEX: (
        _in_segment(codes.TIME_INDEX_OFFSET_OUT_OF_SEGMENT),
        EntryRule(
            codes.TIME_INDEX_OFFSET_NOT_IN_LOG,
            lambda entries: entries.holder.held == 0,
            lambda entries, i: f"no batch contains offset {entries.table.offset[i]}",
            "offset",
            "an offset of a batch",
        ),
        EntryRule(
            codes.TIME_INDEX_TIMESTAMP_NOT_IN_LOG,
            lambda entries: (
                (entries.holder.max_timestamp != entries.table.timestamp)
                & (entries.holder.of_record == 0)
            ),
            lambda entries, i: (
                f"{_time(entries, i)}, whose batch {entries.holder.number[i]} has max "
                f"timestamp {entries.holder.max_timestamp[i]}"
            ),
            "timestamp",
            lambda entries, i: int(entries.holder.max_timestamp[i]),
        ),
        EntryRule(
            codes.TIME_INDEX_NOT_LARGEST,
            lambda entries: entries.holder.earlier_max >= entries.table.timestamp,
            lambda entries, i: (
                f"{_time(entries, i)}, but an earlier batch has {entries.holder.earlier_max[i]}"
            ),
            "timestamp",
            "greater than in all earlier batches",
        ),
    ),
    TRANSACTION_INDEX: (
        EntryRule(
            codes.TRANSACTION_INDEX_VERSION,
            lambda entries: entries.table.version != 0,
            lambda entries, i: f"version {entries.table.version[i]}; only 0 is supported",
            "version",
            "0",
        ),
        EntryRule(
            codes.TRANSACTION_INDEX_NOT_A_MARKER,
            lambda entries: entries.not_markers,
            _no_marker_words,
            "last_offset",
            "the offset of an ABORT marker",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class OrderRule:
    """The order of entries."""

    code: Code
    """The code for an entry that does not come after the previous entry."""
    broken_by: dict[str, np.ufunc]
    """By column, the comparison with the previous entry that no entry may meet. Not a difference,
    which could overflow."""

    def is_broken(self, table: Table) -> BoolArray:
        """Which entries, from the second onward, do not come after the previous entry."""
        wrong = np.zeros(max(len(table) - 1, 0), np.bool_)
        for name, compare in self.broken_by.items():
            wrong |= compare(table[name][1:], table[name][:-1])
        return wrong


ORDER = {
    OFFSET_INDEX: OrderRule(
        codes.INDEX_NOT_INCREASING, {"offset": np.less_equal, "log_position": np.less_equal}
    ),
    TIME_INDEX: OrderRule(
        codes.TIME_INDEX_NOT_INCREASING, {"timestamp": np.less_equal, "offset": np.less}
    ),
    TRANSACTION_INDEX: OrderRule(
        codes.TRANSACTION_INDEX_NOT_INCREASING, {"last_offset": np.less_equal}
    ),
}


def is_further_on(entries: IndexEntries) -> BoolArray:
    """Which entries have an offset after the batch that they point to."""
    further: BoolArray = entries.table.offset > entries.at.last_offset
    return further


def is_sparse(lengths: IntArray, interval: int, largest_batch: int | IntArray) -> BoolArray:
    """Which gaps between entries, in bytes, even the largest batch does not explain."""
    sparse: BoolArray = lengths > interval + largest_batch
    return sparse


def ends_early(last_timestamp: int | IntArray, largest: int | IntArray) -> bool | BoolArray:
    """Whether the time index of a closed segment ends before the segment's largest timestamp."""
    return last_timestamp < largest
