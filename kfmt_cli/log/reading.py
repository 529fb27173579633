"""The rows of a log for every output: open → decompress → decode → complete → select.

The work has two halves: `ahead` is for the reading thread; `parts` may run on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, runs
from kfmt_cli.log.decompress import decompress_ahead, is_heavy
from kfmt_cli.log.derived_columns import batch_rows, read_complete, record_rows
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.section import Rows
from kfmt_cli.topics.decoder import Decoder


@dataclass(frozen=True, slots=True)
class RowsPart:
    """Some rows of a log, and the findings about them."""

    rows: Rows
    findings: list[Finding]

    def first(self, n: int) -> RowsPart:
        """The first n rows, without findings after them."""
        if len(self.rows) <= n:
            return self
        rows = self.rows.first(n)
        positions = self.rows.outer.table.typed(BatchTable).position
        n_outer = len(rows.outer)
        if n_outer == len(positions):
            return replace(self, rows=rows)
        end = int(positions[n_outer])
        return RowsPart(
            rows,
            [
                finding
                for finding in self.findings
                if finding.position is None or finding.position < end
            ],
        )


@dataclass(frozen=True, slots=True)
class RowsReading:
    """Which rows of a log to read, and how."""

    records: bool = False
    """Read each batch's records as well."""
    wanted: Selection = field(default_factory=Selection)
    limit: Limit = field(default_factory=Limit)
    """How much one batch may decompress to."""
    decoder: Decoder | None = None
    """Decodes the topic's keys and values."""
    words: bool = False
    """Decode them to lines for people instead of JSON."""

    def ahead(
        self, blocks: Iterable[Block], advance: Callable[[int], None] = lambda _: None
    ) -> Iterator[Block]:
        """The blocks, prepared for `parts` by the reading thread.

        advance: called with the number of bytes of each block.
        """
        for block in blocks:
            advance(len(block.data))
            chosen = block
            if self.wanted:
                # If records are decoded anyway, they decide which wrappers are wanted.
                chosen = self.wanted.batches(block, None if self.records else self.limit)
            if self.records:
                yield from decompress_ahead(chosen, self.limit)
            else:
                yield chosen

    def parts(self, block: Block) -> Iterator[RowsPart]:
        """The wanted rows of a block."""
        if not self.records:
            yield RowsPart(batch_rows(block), block.findings)
            return
        for run in map(self.wanted.match.near, runs(block)):
            records = read_complete(run, self.limit)
            chosen = self.wanted.rows(run, records) if self.wanted else (run, records)
            rows = record_rows(*chosen, self.decoder, self.words)
            yield RowsPart(rows, [*run.findings, *records.findings])

    def decoded(self, block: Block) -> Iterable[RowsPart]:
        """The parts of a block, as a list; one at a time if the block needs much memory."""
        return self.parts(block) if is_heavy(block) else list(self.parts(block))
