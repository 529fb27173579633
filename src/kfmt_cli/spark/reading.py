"""The batches and records of a part of a file; what is wrong with it becomes findings.

Memory is that of a block and its columns, whatever the file: blocks are cut where their records
decompress to more than a few megabytes (`files/records.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.core.finding import Finding, Severity
from kfmt_cli.core.source import Source, Window
from kfmt_cli.errors import InputError, KfmtError
from kfmt_cli.files import codes
from kfmt_cli.files.block import Block
from kfmt_cli.files.discover import FileKind
from kfmt_cli.files.log import LogReader
from kfmt_cli.files.records import Records, inflate_ahead, read_records, runs
from kfmt_cli.spark.plan import Piece
from kfmt_cli.spark.request import Request
from kfmt_cli.spark.seams import Edges
from kfmt_cli.spark.splits import bounds
from kfmt_cli.spark.storage import open_stored


class DamagedError(KfmtError):
    """FAILFAST met damage."""


@dataclass(slots=True)
class Reading:
    """Reads pieces for a request. findings, edges: of the piece that was read last; no edges where
    nothing begins in it."""

    request: Request
    findings: list[Finding] = field(default_factory=list)
    edges: Edges | None = None

    def blocks(self, piece: Piece) -> Iterator[Block]:
        """The batches that begin in a piece; raises DamagedError in FAILFAST."""
        self.findings = []
        self.edges = None
        if self.is_troubled(piece):
            return
        try:
            source = open_stored(piece.path)
        except InputError as error:
            self.found(Finding(piece.path, codes.FILE_VANISHED, None, str(error)))
            return
        try:
            yield from self._blocks(source, piece)
        except InputError as error:
            self.found(Finding(piece.path, codes.FILE_UNREADABLE, None, str(error)))
        finally:
            source.close()

    def _blocks(self, source: Source, piece: Piece) -> Iterator[Block]:
        size = source.size or 0
        grew = piece.is_last and size > piece.size
        if piece.is_last and size != piece.size:
            code = codes.FILE_GREW if grew else codes.FILE_SHRANK
            words = f"{piece.size} bytes when the work was planned, {size} now"
            self.found(Finding(piece.path, code, None, words, None, piece.size, size))
        start, end = bounds(source, piece)
        # A cut is no end of file: what stands before it is judged by what comes behind it.
        limit = min(piece.size, size)
        end = min(end, limit)
        if start >= end:
            return
        self.edges = edges = Edges(start, limit)
        base = piece.base_offset if piece.kind is FileKind.LOG else None
        for block in LogReader(Window(source, limit), base).blocks(start):
            here = _before(block, end)
            if here is None:
                edges.end = _first_byte(block)
                return
            edges.take(here)
            for finding in here.findings:
                # A batch that was being appended at the planning goes on behind that end.
                if not (grew and finding.code is codes.BATCH_TRUNCATED):
                    self.found(finding)
            yield here
            if here is not block:
                edges.end = int(block.batches["position"][len(here.batches)])
                return

    def records(self, piece: Piece) -> Iterator[tuple[Block, Records]]:
        """The records of a piece, by runs of batches of the same kind."""
        for block in self.blocks(piece):
            for part in inflate_ahead(self._near(block), self.request.limit):
                for finding in part.findings:
                    self.found(finding)
                for run in runs(part):
                    records = read_records(run, self.request.limit)
                    for finding in records.findings:
                        self.found(finding)
                    yield run, records

    def _near(self, block: Block) -> Block:
        """The block with only those batches that can hold something wanted."""
        chosen = self.request.wanted.batches(block).batches
        # Without the findings: they have been taken.
        return Block(block.name, block.data, block.position, chosen)

    def is_troubled(self, piece: Piece) -> bool:
        """Whether a piece stands for a directory that cannot be read, which is then a finding."""
        if piece.trouble:
            self.found(Finding(piece.path, codes.DIRECTORY_UNREADABLE, None, piece.trouble))
        return piece.trouble is not None

    def found(self, finding: Finding) -> None:
        """Keep a finding; raises DamagedError in FAILFAST."""
        if self.request.fail_fast and finding.code.severity is Severity.ERROR:
            where = "" if finding.position is None else f" byte {finding.position}"
            raise DamagedError(f"{finding.file}{where}: {finding.code.name}: {finding.message}")
        self.findings.append(finding)


def _first_byte(block: Block) -> int:
    """Where a block begins in its file."""
    return int(block.batches["position"][0]) if len(block.batches) else block.position


def _before(block: Block, end: int) -> Block | None:
    """What of a block begins before a byte, None where nothing does."""
    if _first_byte(block) >= end:
        return None
    keep = block.batches["position"] < end
    if keep.all():
        return block
    findings = [it for it in block.findings if it.position is None or it.position < end]
    return replace(block, batches=block.batches.select(keep), findings=findings)
