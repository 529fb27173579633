"""Findings about an index: the rules for its entries and for the index as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kfmt_cli.checks.index.entry_rules import (
    ENTRY_RULES,
    IndexEntries,
    OffsetBatches,
    is_after_target,
    is_sparse,
    is_time_index_short,
)
from kfmt_cli.checks.index.facts import IndexFacts
from kfmt_cli.checks.index.own_findings import (
    format_entry_range,
    iter_row_runs,
    iter_standalone_findings,
)
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    TIME_INDEX_KIND,
    TRANSACTION_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import FileContents, InputFile
from kfmt_cli.disk.segment import Segment
from kfmt_cli.findings import codes
from kfmt_cli.findings.codes import adapt_to_missing_offset_index
from kfmt_cli.findings.finding import Finding, FindingCode


@dataclass
class IndexRulesCheck:
    """One index of a segment, with the facts from its log."""

    segment: Segment
    file: InputFile
    contents: FileContents
    facts: IndexFacts
    is_log_damaged: bool

    def iter_findings(self, index_interval_bytes: int, log_size: int) -> Iterator[Finding]:
        """All findings about this index."""
        table = self.contents.table
        yield from iter_standalone_findings(self.segment, self.file, self.contents)
        if self.file.kind is TRANSACTION_INDEX_KIND:
            yield from self._check_transaction_index()
        if self.file.kind is TIME_INDEX_KIND and not self.contents.size:
            yield from self._check_empty_time_index()
        if not len(table) or self.file.kind is TRANSACTION_INDEX_KIND:
            return
        if self.file.kind is OFFSET_INDEX_KIND:
            yield from self._check_offset_index(log_size)
            yield from self._check_gaps(index_interval_bytes)
        else:
            yield from self._check_time_index(log_size)

    def _apply_rules(self, entries: IndexEntries, is_skipped: BoolArray) -> Iterator[Finding]:
        """A finding for each run of entries that break a rule and no earlier rule.

        is_skipped: entries to skip; entries that break a rule are added in place.
        """
        table = self.contents.table
        for rule in ENTRY_RULES[self.file.kind]:
            is_broken = rule.is_broken(entries)
            for start_row, end_row in iter_row_runs(is_broken & ~is_skipped):
                yield Finding(
                    self.file.name,
                    rule.code,
                    int(table.position[start_row]),
                    (
                        f"{format_entry_range(start_row, end_row)}: "
                        f"{rule.format_message(entries, start_row)}"
                    ),
                    offset=int(table.offset[start_row])
                    if "offset" in table.index_by_name
                    else None,
                    expected=rule.expected_value(entries, start_row),
                    found=int(table[rule.column][start_row]),
                )
            is_skipped |= is_broken

    def _iter_summary_finding(
        self, rows: IntArray, code: FindingCode, message: str
    ) -> Iterator[Finding]:
        """One finding for all affected entries."""
        if len(rows):
            position = int(self.contents.table.position[rows[0]])
            yield Finding(self.file.name, code, position, message, found=len(rows))

    def _build_index_entries(self, offset_batches: OffsetBatches, log_size: int) -> IndexEntries:
        facts, base_offset = self.facts, self.file.base_offset_or_zero
        return IndexEntries(
            *(self.contents.table, facts.targets, offset_batches, facts.is_not_marker),
            *(log_size, base_offset, facts.last_offset, self.is_log_damaged),
        )

    def _check_offset_index(self, log_size: int) -> Iterator[Finding]:
        table, facts = self.contents.table, self.facts
        entries = self._build_index_entries(
            facts.offset_batches_by_kind[OFFSET_INDEX_KIND], log_size
        )
        positions, offsets = table.log_position, table.offset
        is_in_damage = facts.targets.in_damage == 1
        if self.is_log_damaged:
            is_in_damage |= (offsets > facts.last_offset) | (
                positions >= facts.batches_end_position
            )
        is_skipped = is_in_damage & (positions > 0) & (positions < log_size)
        damaged_rows = np.flatnonzero(is_skipped)
        yield from self._apply_rules(entries, is_skipped)
        rows_after_target = np.flatnonzero(is_after_target(entries) & ~is_skipped)
        yield from self._iter_summary_finding(
            rows_after_target,
            codes.INDEX_ENTRY_FURTHER_ON,
            f"{len(rows_after_target)} of {len(table)} entries, starting at offset "
            f"{offsets[rows_after_target[:1]].sum()}",
        )
        yield from self._iter_damage_note(damaged_rows)

    def _iter_damage_note(self, rows: IntArray) -> Iterator[Finding]:
        message = f"{len(rows)} of {len(self.contents.table)} entries"
        yield from self._iter_summary_finding(rows, codes.INDEX_ENTRY_IN_DAMAGE, message)

    def _check_gaps(self, index_interval_bytes: int) -> Iterator[Finding]:
        """The finding for gaps between entries that even the largest batch does not explain."""
        gap_bytes = self.facts.undamaged_gap_bytes()
        max_batch_bytes = self.facts.max_batch_bytes
        is_wide = is_sparse(gap_bytes, index_interval_bytes, max_batch_bytes)
        if not is_wide.any():
            return
        message = (
            f"gaps of up to {gap_bytes.max()} bytes between entries; expected at most "
            f"{index_interval_bytes + max_batch_bytes} (index interval {index_interval_bytes}, "
            f"largest batch {max_batch_bytes})"
        )
        yield Finding(self.file.name, codes.INDEX_SPARSE, None, message, found=int(is_wide.sum()))

    def _check_time_index(self, log_size: int) -> Iterator[Finding]:
        table, facts = self.contents.table, self.facts
        entries = self._build_index_entries(facts.offset_batches_by_kind[TIME_INDEX_KIND], log_size)
        is_skipped = np.zeros(len(table), np.bool_)
        if self.is_log_damaged:
            is_skipped = (table.offset > facts.last_offset) | (entries.batches.contains_offset == 0)
        damaged_rows = np.flatnonzero(is_skipped)
        yield from self._apply_rules(entries, is_skipped)
        last_timestamp, max_timestamp = int(table.timestamp[-1]), facts.max_timestamp
        if (
            not self.segment.is_last
            and not self.is_log_damaged
            and is_time_index_short(last_timestamp, max_timestamp)
        ):
            message = (
                f"the last entry is {last_timestamp}, but the segment's largest "
                f"timestamp is {max_timestamp}"
            )
            position = int(table.position[-1])
            code = codes.TIME_INDEX_ENDS_EARLY
            yield Finding(
                self.file.name,
                code,
                position,
                message,
                expected=max_timestamp,
                found=last_timestamp,
            )
        yield from self._iter_damage_note(damaged_rows)

    def _check_empty_time_index(self) -> Iterator[Finding]:
        """The finding for an empty time index: a broker ends it with the largest timestamp."""
        facts = self.facts
        if self.segment.is_last or not facts.has_v2_batches or facts.max_timestamp < 0:
            return
        code = codes.TIME_INDEX_EMPTY
        if OFFSET_INDEX_KIND not in self.segment.index_by_kind:
            code = adapt_to_missing_offset_index(code)
        message = (
            "the index is empty (0 bytes), but the segment's largest timestamp is "
            f"{facts.max_timestamp}"
        )
        yield Finding(self.file.name, code, None, message, expected=facts.max_timestamp)

    def _check_transaction_index(self) -> Iterator[Finding]:
        entries = self._build_index_entries(OffsetBatches.zeros(0), 0)
        yield from self._apply_rules(entries, np.zeros(len(self.contents.table), np.bool_))
        yield from self._iter_missing_aborts()
        yield from self._iter_misleading_aborts()

    def _iter_missing_aborts(self) -> Iterator[Finding]:
        """Findings for transactions that begin and are aborted in the segment but are not in its
        index."""
        column_names = ("producer_id", "last_offset", "first_offset")
        entry_rows = zip(
            *(self.contents.table[name].tolist() for name in column_names), strict=True
        )
        first_offset_by_marker = {
            (entry_producer_id, marker_offset): entry_first_offset
            for entry_producer_id, marker_offset, entry_first_offset in entry_rows
        }
        for producer_id, first_offset, last_offset in self.facts.aborted_transactions:
            indexed_first_offset = first_offset_by_marker.get((producer_id, last_offset))
            if indexed_first_offset is None or indexed_first_offset > first_offset:
                entry_text = (
                    "no entry"
                    if indexed_first_offset is None
                    else f"an entry that starts at {indexed_first_offset}"
                )
                yield Finding(
                    self.file.name,
                    codes.TRANSACTION_INDEX_ENTRY_MISSING,
                    None,
                    f"producer {producer_id}'s transaction at offsets "
                    f"{first_offset}–{last_offset} was aborted, but "
                    f"the index has {entry_text}",
                    offset=first_offset,
                    expected=first_offset,
                    found=indexed_first_offset,
                )

    def _iter_misleading_aborts(self) -> Iterator[Finding]:
        """Findings for entries that end a broker's search too early or too late, or whose
        transaction it takes to begin later."""
        facts, base_offset = self.facts, self.file.base_offset_or_zero
        column_names = (
            "producer_id",
            "last_offset",
            "first_offset",
            "last_stable_offset",
            "position",
        )
        for producer_id, last_offset, first_offset, last_stable_offset, position in zip(
            *(self.contents.table[name].tolist() for name in column_names), strict=True
        ):
            max_last_stable_offset = facts.max_stable_offset_by_marker.get(
                (producer_id, last_offset)
            )
            if max_last_stable_offset is None:
                continue
            code = codes.TRANSACTION_INDEX_MISLEADING
            if last_stable_offset > max_last_stable_offset:
                message = (
                    f"the last stable offset is {last_stable_offset}, which is at most "
                    f"{max_last_stable_offset} at this marker"
                )
                expected, found = max_last_stable_offset, last_stable_offset
            elif (
                not facts.has_holes
                and first_offset >= base_offset
                and (producer_id, last_offset) in facts.earlier_transaction_markers
            ):
                message = f"the transaction began before this segment, not at offset {first_offset}"
                expected, found = base_offset - 1, first_offset
            elif not facts.has_holes and base_offset <= last_stable_offset < max_last_stable_offset:
                code = codes.TRANSACTION_INDEX_STABLE_OFFSET_LOW
                message = (
                    f"the last stable offset is {last_stable_offset}, but "
                    f"{max_last_stable_offset} at this marker"
                )
                expected, found = max_last_stable_offset, last_stable_offset
            else:
                continue
            yield Finding(
                *(self.file.name, code, position, message),
                offset=last_offset,
                expected=expected,
                found=found,
            )
