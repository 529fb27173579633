"""Findings about an index: the rules for its entries and for the whole index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.checks.base import Check
from kfmt_cli.checks.index.entry_rules import (
    RULES,
    Holder,
    IndexEntries,
    ends_early,
    is_further_on,
    is_sparse,
)
from kfmt_cli.checks.index.facts import IndexFacts
from kfmt_cli.checks.index.order import entries_words, own_findings, runs_of
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from kfmt_cli.disk.kinds.kind import Contents, Input
from kfmt_cli.disk.segment import Segment
from kfmt_cli.findings import indexes as codes
from kfmt_cli.findings.consequences import beside_missing_index
from kfmt_cli.findings.finding import Code, Finding


@dataclass
class IndexRules(Check):
    """One index of a segment, with the facts from its log."""

    codes = tuple(var for var in vars(codes).values() if isinstance(var, Code))

    segment: Segment
    file: Input
    rows: Contents
    facts: IndexFacts
    damaged: bool

    def findings(self, interval: int, log_size: int) -> Iterator[Finding]:
        """All findings about this index."""
        table = self.rows.table
        yield from own_findings(self.segment, self.file, self.rows)
        if self.file.kind is TRANSACTION_INDEX:
            yield from self._markers()
        if self.file.kind is TIME_INDEX and not self.rows.size:
            yield from self._no_times()
        if not len(table) or self.file.kind is TRANSACTION_INDEX:
            return
        if self.file.kind is OFFSET_INDEX:
            yield from self._offsets(log_size)
            yield from self._sparse(interval)
        else:
            yield from self._times(log_size)

    def _broken(self, entries: IndexEntries, done: BoolArray) -> Iterator[Finding]:
        """A finding for each run of entries that break a rule and no earlier one.

        done: entries to skip; entries that break a rule are added.
        """
        table = self.rows.table
        for rule in RULES[self.file.kind]:
            wrong = rule.is_broken(entries)
            for i, end in runs_of(wrong & ~done):
                yield Finding(
                    self.file.name,
                    rule.code,
                    int(table.position[i]),
                    f"{entries_words(i, end)}: {rule.words(entries, i)}",
                    offset=int(table.offset[i]) if "offset" in table.names else None,
                    expected=rule.expected_of(entries, i),
                    found=int(table[rule.found][i]),
                )
            done |= wrong

    def _note(self, rows: IntArray, code: Code, words: str) -> Iterator[Finding]:
        """One finding for all affected entries."""
        if len(rows):
            position = int(self.rows.table.position[rows[0]])
            yield Finding(self.file.name, code, position, words, found=len(rows))

    def _entries(self, holder: Holder, log_size: int) -> IndexEntries:
        facts, base = self.facts, self.file.base
        return IndexEntries(
            *(self.rows.table, facts.at, holder, facts.not_markers),
            *(log_size, base, facts.last_offset, self.damaged),
        )

    def _offsets(self, log_size: int) -> Iterator[Finding]:
        table, facts = self.rows.table, self.facts
        entries = self._entries(facts.holders[OFFSET_INDEX], log_size)
        position, offset = table.log_position, table.offset
        unknown = facts.at.in_damage == 1
        if self.damaged:
            unknown |= (offset > facts.last_offset) | (position >= facts.end)
        done = unknown & (position > 0) & (position < log_size)
        in_damage = np.flatnonzero(done)
        yield from self._broken(entries, done)
        further = np.flatnonzero(is_further_on(entries) & ~done)
        yield from self._note(
            further,
            codes.INDEX_FURTHER_ON,
            f"{len(further)} of {len(table)} entries, starting at offset "
            f"{offset[further[:1]].sum()}",
        )
        yield from self._in_damage(in_damage)

    def _in_damage(self, rows: IntArray) -> Iterator[Finding]:
        words = f"{len(rows)} of {len(self.rows.table)} entries"
        yield from self._note(rows, codes.INDEX_IN_DAMAGE, words)

    def _sparse(self, interval: int) -> Iterator[Finding]:
        """The finding for gaps between entries that even the largest batch does not explain."""
        lengths = self.facts.stretches()
        largest = self.facts.largest_batch
        sparse = is_sparse(lengths, interval, largest)
        if not sparse.any():
            return
        words = (
            f"gaps of up to {lengths.max()} bytes between entries; expected at most "
            f"{interval + largest} (index interval {interval}, largest batch {largest})"
        )
        yield Finding(self.file.name, codes.INDEX_SPARSE, None, words, found=int(sparse.sum()))

    def _times(self, log_size: int) -> Iterator[Finding]:
        table, facts = self.rows.table, self.facts
        entries = self._entries(facts.holders[TIME_INDEX], log_size)
        done = np.zeros(len(table), np.bool_)
        if self.damaged:
            done = (table.offset > facts.last_offset) | (entries.holder.held == 0)
        in_damage = np.flatnonzero(done)
        yield from self._broken(entries, done)
        last, largest = int(table.timestamp[-1]), facts.max_timestamp
        if not self.segment.is_last and not self.damaged and ends_early(last, largest):
            words = f"the last entry is {last}, but the segment's largest timestamp is {largest}"
            position = int(table.position[-1])
            code = codes.TIME_INDEX_ENDS_EARLY
            yield Finding(self.file.name, code, position, words, expected=largest, found=last)
        yield from self._in_damage(in_damage)

    def _no_times(self) -> Iterator[Finding]:
        """The finding for an empty time index: a broker ends it with the largest timestamp."""
        facts = self.facts
        if self.segment.is_last or not facts.has_v2 or facts.max_timestamp < 0:
            return
        code = codes.TIME_INDEX_EMPTY
        if OFFSET_INDEX not in self.segment.indexes:
            code = beside_missing_index(code)
        words = (
            "the index is empty (0 bytes), but the segment's largest timestamp is "
            f"{facts.max_timestamp}"
        )
        yield Finding(self.file.name, code, None, words, expected=facts.max_timestamp)

    def _markers(self) -> Iterator[Finding]:
        entries = self._entries(Holder.zeros(0), 0)
        yield from self._broken(entries, np.zeros(len(self.rows.table), np.bool_))
        yield from self._missing_aborts()
        yield from self._misleading_aborts()

    def _missing_aborts(self) -> Iterator[Finding]:
        """Findings for transactions that begin and are aborted in the segment but are not in its
        index."""
        names = ("producer_id", "last_offset", "first_offset")
        rows = zip(*(self.rows.table[name].tolist() for name in names), strict=True)
        known = {(producer, last): first for producer, last, first in rows}
        for producer, first, last in self.facts.aborted:
            found = known.get((producer, last))
            if found is None or found > first:
                words = "no entry" if found is None else f"an entry that starts at {found}"
                yield Finding(
                    self.file.name,
                    codes.TRANSACTION_INDEX_ENTRY_MISSING,
                    None,
                    f"producer {producer}'s transaction at offsets {first}–{last} was aborted, but "
                    f"the index has {words}",
                    offset=first,
                    expected=first,
                    found=found,
                )

    def _misleading_aborts(self) -> Iterator[Finding]:
        """Findings for entries that end a broker's search too early, or that it takes for later
        ones."""
        facts, base = self.facts, self.file.base
        names = ("producer_id", "last_offset", "first_offset", "last_stable_offset", "position")
        for producer, last, first, stable, at in zip(
            *(self.rows.table[name].tolist() for name in names), strict=True
        ):
            most = facts.stable.get((producer, last))
            if most is None:
                continue
            if stable > most:
                words = (
                    f"the last stable offset is {stable}, which is at most {most} at this marker"
                )
                expected, found = most, stable
            elif not facts.has_holes and first >= base and (producer, last) in facts.begun_before:
                words = f"the transaction began before this segment, not at offset {first}"
                expected, found = base - 1, first
            else:
                continue
            yield Finding(
                *(self.file.name, codes.TRANSACTION_INDEX_MISLEADING, at, words),
                offset=last,
                expected=expected,
                found=found,
            )
