"""The rules for the entries of an index.

They are those that hold for the files of every broker version, so that no healthy index is accused:
leaders, followers, the cleaner and recovery, and old and new brokers, each write entries of their
own kind. Source: `org.apache.kafka.storage.internals.log.OffsetIndex`, `TimeIndex`, `LogSegment`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.checks.base import Check, Scope
from kfmt_cli.checks.index.facts import IndexFacts
from kfmt_cli.checks.index.order import entries_words, order_findings, padding_finding, runs_of
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray, Table
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Contents, Input
from kfmt_cli.disk.segment import Segment
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.consequences import beside_missing_index
from kfmt_cli.findings.finding import Code, Finding


def missing_aborts(file: Input, table: Table, facts: IndexFacts) -> Iterator[Finding]:
    """Transactions that begin and are aborted in the segment, and are not in its index."""
    known: dict[tuple[int, int], int] = {}
    names = ("producer_id", "last_offset", "first_offset")
    for producer, last, first in zip(*(table[name].tolist() for name in names), strict=True):
        known[producer, last] = first
    for producer, first, last in facts.aborted:
        found = known.get((producer, last))
        if found is None or found > first:
            words = "no entry" if found is None else f"an entry that begins at {found}"
            yield Finding(
                file.name,
                codes.TRANSACTION_INDEX_ENTRY_MISSING,
                None,
                f"the transaction of producer {producer} at offsets {first}–{last} was aborted; "
                f"there is {words}",
                offset=first,
                expected=first,
                found=found,
            )


@dataclass
class IndexRules(Check):
    """One index of a segment and what its log says of it."""

    scope = Scope.SEGMENT
    codes = tuple(var for var in vars(codes).values() if isinstance(var, Code))

    segment: Segment
    file: Input
    rows: Contents
    facts: IndexFacts
    damaged: bool

    def findings(self, interval: int, log_size: int) -> Iterator[Finding]:
        """Everything about this index."""
        table = self.rows.table
        yield from self.rows.findings
        yield from order_findings(self.file, table)
        if self.rows.padding:
            yield padding_finding(self.segment, self.file, self.rows)
        if self.file.kind is TRANSACTION_INDEX:
            yield from self._markers()
        if self.file.kind is TIME_INDEX and not self.rows.size:
            yield from self._no_times()
        if not len(table) or self.file.kind is TRANSACTION_INDEX:
            return
        if self.file.kind is OFFSET_INDEX:
            yield from self._offsets(self.facts.holders[0], log_size)
            yield from self._sparse(interval)
        else:
            yield from self._times(self.facts.holders[-1])

    def _each(
        self,
        wrong: BoolArray,
        done: BoolArray,
        code: Code,
        words: Callable[[int], str],
        *,
        found: str,
        expected: str | IntArray,
    ) -> Iterator[Finding]:
        """A finding for each run of entries that break a rule and have not broken one before.

        found: the column that is wrong; expected: what should be in it, for all or each of them.
        """
        table = self.rows.table
        for i, end in runs_of(wrong & ~done):
            yield Finding(
                self.file.name,
                code,
                int(table["position"][i]),
                f"{entries_words(i, end)}: {words(i)}",
                offset=int(table["offset"][i]) if "offset" in table.names else None,
                expected=expected if isinstance(expected, str) else int(expected[i]),
                found=int(table[found][i]),
            )
        done |= wrong

    def _note(self, rows: IntArray, code: Code, words: str) -> Iterator[Finding]:
        """One note for all the entries that it is true of."""
        if len(rows):
            position = int(self.rows.table["position"][rows[0]])
            yield Finding(self.file.name, code, position, words, found=len(rows))

    def _out_of_segment(self) -> BoolArray:
        """Entries before the segment, or after its last offset where that is known."""
        table = self.rows.table
        out: BoolArray = table["relative_offset"] < 0
        if not self.damaged:
            out |= table["offset"] > self.facts.last_offset
        return out

    def _segment_words(self) -> str:
        return f"the segment holds {self.file.base_offset or 0}–{self.facts.last_offset}"

    def _offsets(self, holders: Table, log_size: int) -> Iterator[Finding]:
        table, at = self.rows.table, self.facts.at
        position, offset = table["log_position"], table["offset"]
        unknown = at["in_damage"] == 1
        if self.damaged:
            unknown |= (offset > self.facts.last_offset) | (position >= self.facts.end)
        done = unknown & (position > 0) & (position < log_size)
        in_damage = np.flatnonzero(done)
        yield from self._each(
            (position <= 0) | (position >= log_size),
            done,
            codes.INDEX_POSITION_OUT_OF_LOG,
            lambda i: f"offset {offset[i]} at byte {position[i]} of a log of {log_size} bytes",
            expected=f"1–{log_size - 1}",
            found="log_position",
        )
        yield from self._each(
            self._out_of_segment(),
            done,
            codes.INDEX_OFFSET_OUT_OF_SEGMENT,
            lambda i: f"offset {offset[i]}; {self._segment_words()}",
            expected=f"{self.file.base_offset or 0}–{self.facts.last_offset}",
            found="offset",
        )
        yield from self._each(
            at["starts"] == 0,
            done,
            codes.INDEX_NOT_AT_BATCH,
            lambda i: f"offset {offset[i]} at byte {position[i]} of the log, where no batch begins",
            expected="the first byte of a batch",
            found="log_position",
        )
        yield from self._each(
            at["at_base"] > offset,
            done,
            codes.INDEX_OFFSET_BEFORE_BATCH,
            lambda i: (
                f"offset {offset[i]} at byte {position[i]}, where batch {at['at_number'][i]} "
                f"begins with offset {at['at_base'][i]}"
            ),
            expected="that of the batch at its position, or a later one",
            found="offset",
        )
        yield from self._each(
            (holders["held"] == 0) | (holders["holder_position"] < position),
            done,
            codes.INDEX_OFFSET_NOT_IN_LOG,
            lambda i: f"no batch from byte {position[i]} on holds offset {offset[i]}",
            expected="an offset of a batch",
            found="offset",
        )
        further = np.flatnonzero((offset > at["at_last"]) & ~done)
        yield from self._note(
            further,
            codes.INDEX_FURTHER_ON,
            f"{len(further)} of {len(table)} entries, from offset {offset[further[:1]].sum()} on",
        )
        yield from self._in_damage(in_damage)

    def _in_damage(self, rows: IntArray) -> Iterator[Finding]:
        words = f"{len(rows)} of {len(self.rows.table)} entries"
        yield from self._note(rows, codes.INDEX_IN_DAMAGE, words)

    def _sparse(self, interval: int) -> Iterator[Finding]:
        """Stretches without an entry that even the largest batch does not explain."""
        lengths = self.facts.stretches()
        largest = self.facts.largest_batch
        sparse = lengths > interval + largest
        if not sparse.any():
            return
        words = (
            f"{int(sparse.sum())} of {len(lengths)} stretches between entries are longer than "
            f"{interval + largest} bytes, which are the index interval of {interval} and the "
            f"largest batch, {largest}; the longest has {lengths.max()} bytes, and "
            f"{int((lengths > interval).sum())} are longer than the interval alone"
        )
        yield Finding(self.file.name, codes.INDEX_SPARSE, None, words, found=int(sparse.sum()))

    def _times(self, holders: Table) -> Iterator[Finding]:
        table = self.rows.table
        time, offset = table["timestamp"], table["offset"]
        done = (offset > self.facts.last_offset) & self.damaged
        if self.damaged:
            done |= holders["held"] == 0
        in_damage = np.flatnonzero(done)
        yield from self._each(
            self._out_of_segment(),
            done,
            codes.TIME_INDEX_OFFSET_OUT_OF_SEGMENT,
            lambda i: f"offset {offset[i]}; {self._segment_words()}",
            expected=f"{self.file.base_offset or 0}–{self.facts.last_offset}",
            found="offset",
        )
        yield from self._each(
            holders["held"] == 0,
            done,
            codes.TIME_INDEX_OFFSET_NOT_IN_LOG,
            lambda i: f"no batch holds offset {offset[i]}",
            expected="an offset of a batch",
            found="offset",
        )
        yield from self._each(
            (holders["holder_max"] != time) & (holders["of_record"] == 0),
            done,
            codes.TIME_INDEX_TIMESTAMP_NOT_IN_LOG,
            lambda i: (
                f"timestamp {time[i]} for offset {offset[i]}, whose batch "
                f"{holders['holder_number'][i]} has max timestamp {holders['holder_max'][i]}"
            ),
            expected=holders["holder_max"],
            found="timestamp",
        )
        yield from self._each(
            holders["earlier_max"] >= time,
            done,
            codes.TIME_INDEX_NOT_LARGEST,
            lambda i: (
                f"timestamp {time[i]} for offset {offset[i]}, but a batch before it has "
                f"{holders['earlier_max'][i]}"
            ),
            expected="more than all before it",
            found="timestamp",
        )
        largest = self.facts.max_timestamp
        closed = not self.segment.is_last and not self.damaged
        if closed and int(time[-1]) < largest:
            words = f"the last entry has {time[-1]}, the segment {largest}"
            last = int(table["position"][-1])
            code = codes.TIME_INDEX_ENDS_EARLY
            yield Finding(self.file.name, code, last, words, expected=largest, found=int(time[-1]))
        yield from self._in_damage(in_damage)

    def _no_times(self) -> Iterator[Finding]:
        """A time index of no bytes. A broker ends that of a segment with its largest timestamp."""
        facts = self.facts
        if self.segment.is_last or not facts.has_v2 or facts.max_timestamp < 0:
            return
        code = codes.TIME_INDEX_EMPTY
        if OFFSET_INDEX not in self.segment.indexes:
            code = beside_missing_index(code)
        words = f"0 bytes, and the largest timestamp of the segment is {facts.max_timestamp}"
        yield Finding(self.file.name, code, None, words, expected=facts.max_timestamp)

    def _markers(self) -> Iterator[Finding]:
        table = self.rows.table
        done = np.zeros(len(table), np.bool_)
        yield from self._each(
            table["version"] != 0,
            done,
            codes.TRANSACTION_INDEX_VERSION,
            lambda i: f"version {table['version'][i]}, only 0 is known",
            expected="0",
            found="version",
        )
        yield from self._each(
            self.facts.markers["contradicted"] == 1,
            done,
            codes.TRANSACTION_INDEX_NOT_A_MARKER,
            lambda i: (
                f"producer {table['producer_id'][i]}: offset {table['last_offset'][i]} is no "
                "ABORT marker of it"
            ),
            expected="the offset of an ABORT marker",
            found="last_offset",
        )
        yield from missing_aborts(self.file, table, self.facts)
