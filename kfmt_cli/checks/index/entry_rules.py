"""What must be true of each entry of an index: one table, for one segment and for packs of them.

They are the rules that hold for the files of every broker version, so that no healthy index is
accused: leaders, followers, the cleaner and recovery, and old and new brokers, each write entries
of their own kind. Source: `org.apache.kafka.storage.internals.log.OffsetIndex`, `TimeIndex`,
`LogSegment`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray, Table
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.finding import Code

# What a log says of its indexes: of the byte that an entry points at, of the batch that holds its
# offset or is the first after it, and of what lies where an abort marker should.
AT_BATCH = ("starts", "at_number", "at_base", "at_last", "in_damage")
HOLDER = ("held", "holder_position", "holder_number", "holder_max", "earlier_max", "of_record")
MARKER = ("contradicted",)


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """The entries of an index, and what the log says of each. In a pack of segments, numbers of
    the segment have one value for each entry."""

    table: Table
    """The rows of the index."""
    at: Table
    """`AT_BATCH`, for an offset index."""
    holder: Table
    """`HOLDER`, for an offset index or a time index."""
    marker: Table
    """`MARKER`, for a transaction index."""
    log_size: int | IntArray
    """Bytes of the log."""
    base: int | IntArray
    """The segment's base offset."""
    last: int | IntArray
    """The segment's last offset."""
    damaged: bool = False
    """The log is, so that its last offset bounds nothing."""

    @property
    def range_words(self) -> str:
        """The offsets of the segment."""
        return f"{self.base}–{self.last}"


@dataclass(frozen=True, slots=True)
class EntryRule:
    """What must be true of an entry."""

    code: Code
    """The finding where it is not."""
    is_broken: Callable[[IndexEntries], BoolArray]
    """The entries that break it."""
    words: Callable[[IndexEntries, int], str]
    """What is said of such an entry, by its row."""
    found: str
    """The column that is wrong."""
    expected: str | Callable[[IndexEntries, int], str | int]
    """What should be in it, for all entries or for one."""

    def expected_of(self, entries: IndexEntries, i: int) -> str | int:
        """What should be in an entry."""
        return self.expected if isinstance(self.expected, str) else self.expected(entries, i)


def _out_of_segment(entries: IndexEntries) -> BoolArray:
    out: BoolArray = entries.table["relative_offset"] < 0
    return out if entries.damaged else out | (entries.table["offset"] > entries.last)


def _no_marker_words(entries: IndexEntries, i: int) -> str:
    table = entries.table
    return (
        f"producer {table['producer_id'][i]}: offset {table['last_offset'][i]} is not one of its "
        "ABORT markers"
    )


def _place(entries: IndexEntries, i: int) -> str:
    return f"offset {entries.table['offset'][i]} at byte {entries.table['log_position'][i]}"


def _time(entries: IndexEntries, i: int) -> str:
    return f"timestamp {entries.table['timestamp'][i]} for offset {entries.table['offset'][i]}"


def _outside_words(entries: IndexEntries, i: int) -> str:
    return f"offset {entries.table['offset'][i]}; the segment contains {entries.range_words}"


def _in_segment(code: Code) -> EntryRule:
    """The offset of an entry is one of the segment's."""
    return EntryRule(
        code, _out_of_segment, _outside_words, "offset", lambda entries, _: entries.range_words
    )


# In the order in which they are asked: an entry that breaks one is not told of the later ones.
RULES: dict[Kind, tuple[EntryRule, ...]] = {
    OFFSET_INDEX: (
        EntryRule(
            codes.INDEX_POSITION_OUT_OF_LOG,
            lambda entries: (
                (entries.table["log_position"] <= 0)
                | (entries.table["log_position"] >= entries.log_size)
            ),
            lambda entries, i: f"{_place(entries, i)}; the log has {entries.log_size} bytes",
            "log_position",
            lambda entries, _: f"1–{entries.log_size - 1}",
        ),
        _in_segment(codes.INDEX_OFFSET_OUT_OF_SEGMENT),
        EntryRule(
            codes.INDEX_NOT_AT_BATCH,
            lambda entries: entries.at["starts"] == 0,
            lambda entries, i: f"{_place(entries, i)}, where no batch starts",
            "log_position",
            "the first byte of a batch",
        ),
        EntryRule(
            codes.INDEX_OFFSET_BEFORE_BATCH,
            lambda entries: entries.at["at_base"] > entries.table["offset"],
            lambda entries, i: (
                f"{_place(entries, i)}, where batch {entries.at['at_number'][i]} starts at offset "
                f"{entries.at['at_base'][i]}"
            ),
            "offset",
            "the base offset of the batch at its position, or later",
        ),
        EntryRule(
            codes.INDEX_OFFSET_NOT_IN_LOG,
            lambda entries: (
                (entries.holder["held"] == 0)
                | (entries.holder["holder_position"] < entries.table["log_position"])
            ),
            lambda entries, i: (
                f"no batch from byte {entries.table['log_position'][i]} onward contains offset "
                f"{entries.table['offset'][i]}"
            ),
            "offset",
            "an offset of a batch",
        ),
    ),
    TIME_INDEX: (
        _in_segment(codes.TIME_INDEX_OFFSET_OUT_OF_SEGMENT),
        EntryRule(
            codes.TIME_INDEX_OFFSET_NOT_IN_LOG,
            lambda entries: entries.holder["held"] == 0,
            lambda entries, i: f"no batch contains offset {entries.table['offset'][i]}",
            "offset",
            "an offset of a batch",
        ),
        EntryRule(
            codes.TIME_INDEX_TIMESTAMP_NOT_IN_LOG,
            lambda entries: (
                (entries.holder["holder_max"] != entries.table["timestamp"])
                & (entries.holder["of_record"] == 0)
            ),
            lambda entries, i: (
                f"{_time(entries, i)}, whose batch {entries.holder['holder_number'][i]} has max "
                f"timestamp {entries.holder['holder_max'][i]}"
            ),
            "timestamp",
            lambda entries, i: int(entries.holder["holder_max"][i]),
        ),
        EntryRule(
            codes.TIME_INDEX_NOT_LARGEST,
            lambda entries: entries.holder["earlier_max"] >= entries.table["timestamp"],
            lambda entries, i: (
                f"{_time(entries, i)}, but an earlier batch has {entries.holder['earlier_max'][i]}"
            ),
            "timestamp",
            "greater than in all earlier batches",
        ),
    ),
    TRANSACTION_INDEX: (
        EntryRule(
            codes.TRANSACTION_INDEX_VERSION,
            lambda entries: entries.table["version"] != 0,
            lambda entries, i: f"version {entries.table['version'][i]}; only 0 is supported",
            "version",
            "0",
        ),
        EntryRule(
            codes.TRANSACTION_INDEX_NOT_A_MARKER,
            lambda entries: entries.marker["contradicted"] == 1,
            _no_marker_words,
            "last_offset",
            "the offset of an ABORT marker",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class OrderRule:
    """How entries follow one another."""

    code: Code
    """The finding for an entry that does not come after the one before it."""
    steps: dict[str, int]
    """The columns that increase, and by how much at least."""

    def is_broken(self, table: Table) -> BoolArray:
        """The entries after the first that do not come after the one before them."""
        wrong = np.zeros(max(len(table) - 1, 0), np.bool_)
        for name, least in self.steps.items():
            wrong |= np.diff(table[name]) < least
        return wrong


ORDER = {
    OFFSET_INDEX: OrderRule(codes.INDEX_NOT_INCREASING, {"offset": 1, "log_position": 1}),
    TIME_INDEX: OrderRule(codes.TIME_INDEX_NOT_INCREASING, {"timestamp": 1, "offset": 0}),
    TRANSACTION_INDEX: OrderRule(codes.TRANSACTION_INDEX_NOT_INCREASING, {"last_offset": 1}),
}


def is_further_on(entries: IndexEntries) -> BoolArray:
    """Entries whose offset comes after the batch that they point at."""
    further: BoolArray = entries.table["offset"] > entries.at["at_last"]
    return further


def is_sparse(lengths: IntArray, interval: int, largest_batch: int | IntArray) -> BoolArray:
    """Stretches without an entry that even the largest batch does not explain, in bytes."""
    sparse: BoolArray = lengths > interval + largest_batch
    return sparse


def ends_early(last_timestamp: int | IntArray, largest: int | IntArray) -> bool | BoolArray:
    """Whether the time index of a closed segment ends before the segment's largest timestamp."""
    return last_timestamp < largest
