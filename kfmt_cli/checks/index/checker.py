"""index-check: compare the indexes of a segment with its log; the rules are in `rules.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.checks.index.facts import IndexFacts
from kfmt_cli.checks.index.own_findings import iter_standalone_findings
from kfmt_cli.checks.index.rules import IndexRulesCheck
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.checks.second_look import places_in_doubt, repeated_results
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.changes import SeenAt, parent_path
from kfmt_cli.disk.kinds import INDEX_KINDS
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    TIME_INDEX_KIND,
    TRANSACTION_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import FileContents, FileKind, InputFile
from kfmt_cli.disk.segment import Segment, find_current_segment, segment_file_path
from kfmt_cli.errors import InputError
from kfmt_cli.findings import codes
from kfmt_cli.findings.codes import adapt_to_missing_offset_index, downgrade_for_damaged_log
from kfmt_cli.findings.finding import MAX_FINDINGS, Finding, FindingCode, FindingCollector
from kfmt_cli.log.block import Block
from kfmt_cli.rows.file_result import FileResult, FileResultType

INDEX_RESULT = FileResultType(
    ("bytes", "entries"),
    {"entries": 9, "bytes": 12},
    ("index", "indexes"),
    "--wide",
)
# Names in the summary for lines that are not an index.
MISSING_INDEXES, DAMAGED_LOGS = "missing", "damaged_logs"
_MISSING_CODE_BY_KIND = {
    OFFSET_INDEX_KIND: codes.INDEX_MISSING,
    TIME_INDEX_KIND: codes.TIME_INDEX_MISSING,
    TRANSACTION_INDEX_KIND: codes.TRANSACTION_INDEX_MISSING,
}


@dataclass(slots=True)
class IndexCheckState:
    """A log, read block by block to check its indexes."""

    segment: Segment
    contents_by_kind: dict[FileKind, FileContents]
    facts: IndexFacts
    is_log_damaged: bool = False
    """Whether the log is damaged."""
    seen_at: SeenAt = field(default_factory=SeenAt)
    """When the indexes were read."""

    def add_block(self, block: Block) -> None:
        """Add the next block of the log, with the findings about its headers."""
        self.is_log_damaged |= bool(block.findings)
        self.facts.add_block(block)

    def read_log(self, on_block: Callable[[Block], None] = lambda _: None) -> int:
        """Add all blocks of the log; returns its size in bytes. Raises InputError."""
        with open_checked_log(self.segment.required_log, read_ahead=True) as checked_log:
            for block in checked_log.blocks:
                on_block(block)
                self.add_block(block)
            return checked_log.reader.bytes_read


@dataclass(frozen=True, slots=True)
class IndexChecker:
    """Checks indexes with some settings."""

    limit: DecompressionLimit
    index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES
    """`index.interval.bytes`, for the notes on sparse ranges."""
    max_findings: int = MAX_FINDINGS
    """Findings kept per code and file; all are counted."""

    def iter_results(
        self, segment: Segment, on_progress: Callable[[int], None]
    ) -> Iterator[FileResult]:
        """The result for each index, and for the log if it is damaged; raises InputError.

        on_progress: called with the number of bytes of each block of the log.
        """
        index_state = self.read_indexes(segment)
        if segment.log is None:
            if index_state.seen_at.has_changed(parent_path(segment.any_file.path)):
                # A broker may have renamed only the log so far.
                index_state.seen_at.wait_until_settled()
                index_state = self.read_indexes(segment)
            for kind, file in segment.index_by_kind.items():
                contents = index_state.contents_by_kind[kind]
                if kind in segment.requested_index_kinds:
                    yield self._create_result_with_findings(
                        file, contents, iter_standalone_findings(segment, file, contents)
                    )
            return
        log_result = self._create_result(
            segment.log.name, segment.log.kind.name, counted_as=DAMAGED_LOGS
        )

        def on_block(block: Block) -> None:
            on_progress(len(block.data))
            log_result.add_findings(block.findings)

        log_result.counts["bytes"] = log_size = index_state.read_log(on_block)
        if index_state.is_log_damaged:
            yield log_result
        yield from self.index_results(index_state, log_size)

    def read_indexes(self, segment: Segment) -> IndexCheckState:
        """Read the indexes of a segment, before its log; raises InputError."""
        contents_by_kind = {
            kind: file.read_contents() for kind, file in segment.index_by_kind.items()
        }
        table_by_kind = {kind: contents.table for kind, contents in contents_by_kind.items()}
        base_offset = None if segment.log is None else segment.log.base_offset
        return IndexCheckState(
            segment, contents_by_kind, IndexFacts(table_by_kind, self.limit, base_offset)
        )

    def index_results(self, index_state: IndexCheckState, log_size: int) -> list[FileResult]:
        """The result for each kind, after the last block of the log. If a broker wrote the files in
        the meantime, only findings that a second read repeats."""
        results = list(self._iter_first_results(index_state, log_size))
        if not places_in_doubt(
            finding for result in results for finding in result.findings
        ) or not index_state.seen_at.has_segment_changed(index_state.segment):
            return results
        index_state.seen_at.wait_until_settled()
        try:
            second_state = self.read_indexes(find_current_segment(index_state.segment))
            second_size = second_state.read_log()
        except InputError:  # a broker deleted the segment
            return repeated_results(results, [])
        return repeated_results(results, list(self._iter_first_results(second_state, second_size)))

    def _iter_first_results(
        self, index_state: IndexCheckState, log_size: int
    ) -> Iterator[FileResult]:
        segment, contents_by_kind, facts = (
            index_state.segment,
            index_state.contents_by_kind,
            index_state.facts,
        )
        facts.mark_trailing_damage(log_size)
        for kind in (kind for kind in INDEX_KINDS if kind in segment.requested_index_kinds):
            if kind in contents_by_kind:
                file = segment.index_by_kind[kind]
                check = IndexRulesCheck(
                    segment, file, contents_by_kind[kind], facts, index_state.is_log_damaged
                )
                yield self._create_result_with_findings(
                    file,
                    contents_by_kind[kind],
                    check.iter_findings(self.index_interval_bytes, log_size),
                )
            elif missing_code := _find_missing_index_code(
                segment, kind, facts, index_state.is_log_damaged
            ):
                yield self._create_missing_result(segment.required_log, kind, missing_code, facts)

    def iter_healthy_results(
        self, segment: Segment, index_sizes: list[tuple[FileKind, int, int]]
    ) -> Iterator[FileResult]:
        """The results for the indexes of a healthy segment."""
        for kind, index_size, n_entries in index_sizes:
            if kind in segment.requested_index_kinds:
                display_name = segment.index_by_kind[kind].name
                yield self._create_result(
                    display_name, kind.name, bytes=index_size, entries=n_entries
                )

    def _create_result(
        self, file_name: str, kind_name: str, counted_as: str = "", **counts: int | None
    ) -> FileResult:
        findings = FindingCollector(self.max_findings)
        return FileResult(
            INDEX_RESULT,
            file_name,
            kind_name,
            dict(counts),
            findings=findings,
            counted_as=counted_as,
        )

    def _create_result_with_findings(
        self, file: InputFile, contents: FileContents, findings: Iterable[Finding]
    ) -> FileResult:
        """The result for an index, with its findings in file order."""
        n_entries = len(contents.table)
        result = self._create_result(
            file.name, file.kind.name, bytes=contents.size, entries=n_entries
        )
        result.add_findings(findings)
        result.findings.shown_findings.sort(key=lambda finding: finding.position or 0)
        return result

    def _create_missing_result(
        self, log: InputFile, index_kind: FileKind, code: FindingCode, facts: IndexFacts
    ) -> FileResult:
        """The result for a missing index, under the name that it would have."""
        missing_file_name = format_display_name(segment_file_path(log.path, index_kind))
        message, first_offset = "missing", None
        if index_kind is TRANSACTION_INDEX_KIND:
            producer_id, first_offset, last_offset = facts.aborted_transactions[0]
            n_aborted_transactions = len(facts.aborted_transactions)
            message = (
                f"{n_aborted_transactions} aborted "
                f"{'transaction' if n_aborted_transactions == 1 else 'transactions'} in "
                f"the log; the first is from producer {producer_id}, offsets "
                f"{first_offset}–{last_offset}"
            )
        result = self._create_result(
            missing_file_name, index_kind.name, counted_as=MISSING_INDEXES, bytes=None
        )
        result.add_findings([Finding(missing_file_name, code, None, message, offset=first_offset)])
        return result


def _find_missing_index_code(
    segment: Segment, index_kind: FileKind, facts: IndexFacts, is_log_damaged: bool
) -> FindingCode | None:
    """The code for a missing index; None if none is needed."""
    if index_kind is TRANSACTION_INDEX_KIND:
        if is_log_damaged or not facts.aborted_transactions:
            return None
    elif segment.required_log.base_offset is None or not facts.batches_end_position:
        return None
    if index_kind is TIME_INDEX_KIND and not facts.has_v2_batches:
        return codes.TIME_INDEX_ABSENT
    code = _MISSING_CODE_BY_KIND[index_kind]
    if index_kind is not OFFSET_INDEX_KIND and OFFSET_INDEX_KIND not in segment.index_by_kind:
        code = adapt_to_missing_offset_index(code)
    return downgrade_for_damaged_log(code) if is_log_damaged else code
