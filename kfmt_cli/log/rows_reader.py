"""The rows of a log for every output: open → decompress → decode → complete → select.

The work has two halves: `iter_prepared_blocks` is for the reading thread; `iter_rows` may run on
any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, split_runs
from kfmt_cli.log.decompression import decompress_ahead, needs_separate_decoding
from kfmt_cli.log.derived_columns import batch_rows, read_complete_records, record_rows
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.rows.columnar_rows import NestedRows
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.topics.decoder import Decoder


@dataclass(frozen=True, slots=True)
class RowsAndFindings:
    """Some rows of a log, and the findings about them."""

    rows: NestedRows
    findings: list[Finding]

    def first_rows(self, n_rows: int) -> RowsAndFindings:
        """The first n rows, without findings after them."""
        if len(self.rows) <= n_rows:
            return self
        selected_rows = self.rows.first_rows(n_rows)
        batch_positions = self.rows.outer.table.as_type(BatchTable).position
        n_batches = len(selected_rows.outer)
        if n_batches == len(batch_positions):
            return replace(self, rows=selected_rows)
        end_position = int(batch_positions[n_batches])
        return RowsAndFindings(
            selected_rows,
            [
                finding
                for finding in self.findings
                if finding.position is None or finding.position < end_position
            ],
        )


@dataclass(frozen=True, slots=True)
class LogRowsReader:
    """Reads selected rows of a log."""

    reads_records: bool = False
    """Read each batch's records as well."""
    selection: Selection = field(default_factory=Selection)
    decompression_limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    """The largest size that one batch may decompress to."""
    decoder: Decoder | None = None
    """Decodes the topic's keys and values."""
    as_text: bool = False
    """Format decoded values as text for people instead of JSON."""
    on_records: Callable[[RecordColumns], None] | None = None
    """Called with the selected records of each run."""

    def iter_prepared_blocks(
        self, blocks: Iterable[Block], on_progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[Block]:
        """The blocks, prepared for `iter_rows` by the reading thread.

        on_progress: called with the number of bytes of each block.
        """
        for block in blocks:
            on_progress(len(block.data))
            selected_block = block
            if self.selection:
                # If records are decoded anyway, they decide which wrappers are selected.
                selected_block = self.selection.select_batches(
                    block, None if self.reads_records else self.decompression_limit
                )
            if self.reads_records:
                yield from decompress_ahead(selected_block, self.decompression_limit)
            else:
                yield selected_block

    def iter_rows(self, block: Block) -> Iterator[RowsAndFindings]:
        """The selected rows of a prepared block, run by run."""
        if not self.reads_records:
            yield RowsAndFindings(batch_rows(block), block.findings)
            return
        for run in map(self.selection.record_filter.prefilter_batches, split_runs(block)):
            records = read_complete_records(run, self.decompression_limit)
            run_and_records = (
                self.selection.select_records(run, records) if self.selection else (run, records)
            )
            if self.on_records is not None:
                self.on_records(run_and_records[1])
            nested_rows = record_rows(*run_and_records, self.decoder, self.as_text)
            yield RowsAndFindings(nested_rows, [*run.findings, *records.findings])

    def read_rows(self, block: Block) -> Iterable[RowsAndFindings]:
        """`iter_rows` as a list; one run at a time if the block needs much memory."""
        return (
            self.iter_rows(block) if needs_separate_decoding(block) else list(self.iter_rows(block))
        )
