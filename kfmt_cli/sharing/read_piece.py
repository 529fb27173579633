"""Reads the batches and records of a part of a file, reporting damage as findings.

Memory is limited to a block and its columns, whatever the file: blocks are divided if their records
decompress to more than a few megabytes (`log/records.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.checks.base import Facts, LogCheck, Scope
from kfmt_cli.checks.registry import log_checks
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.source import Source, SourceWindow
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.opening import open_source
from kfmt_cli.errors import InputError, KfmtError
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding, Severity, in_order
from kfmt_cli.log.block import Block, runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.decompress import decompress_ahead
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.sharing.bounds import bounds
from kfmt_cli.sharing.piece import Piece

UNREADABLE = (codes.FILE_VANISHED, codes.FILE_UNREADABLE, codes.DIRECTORY_UNREADABLE)
_CHANGED = (codes.FILE_VANISHED, codes.FILE_UNREADABLE, codes.FILE_GREW, codes.FILE_SHRANK)


class DamagedError(KfmtError):
    """Damage that stops reading, with fail_fast."""


class UnreadError(InputError):
    """An input that could not be read, with raises_unreadable."""


def unread_words(path: str, reason: str) -> str:
    """The message about an input that could not be read, and how to go on without it."""
    why = reason.removeprefix(f"{path}: ")
    return f"{path}: {why}; with the option ignoreUnreadable, the other inputs are read"


@dataclass(slots=True)
class Edges:
    """Facts about a piece that are needed to join it to its neighbours."""

    begin: int
    """Byte where its first batch begins."""
    end: int
    """Exclusive end of its last batch, as read."""
    batches: int = 0
    """Number of batches."""
    checks: dict[str, Facts] = field(default_factory=dict)
    """Facts from each check, by check name."""


@dataclass(slots=True)
class PieceReader:
    """Reads pieces."""

    wanted: Selection = field(default_factory=Selection)
    limit: Limit = field(default_factory=Limit)
    fail_fast: bool = False
    """Stop reading at damage."""
    raises_unreadable: bool = False
    """Stop reading at an input that cannot be read, which is no damage."""
    searches: bool = False
    """See `bounds`."""
    findings: list[Finding] = field(default_factory=list)
    """Findings in the piece read last."""
    edges: Edges | None = None
    """Edges of the piece read last; None if no batch begins in it."""

    def blocks(self, piece: Piece) -> Iterator[Block]:
        """The batches that begin in a piece; raises DamagedError for damage with fail_fast,
        UnreadError for an input that cannot be read with raises_unreadable."""
        self.findings = []
        self.edges = None
        if self.is_troubled(piece):
            return
        try:
            source = open_source(piece.path)
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
            words = f"{piece.size} bytes at planning time, {size} now"
            self.found(Finding(piece.path, code, None, words, expected=piece.size, found=size))
        start, end = bounds(source, piece, self.searches)
        # A cut is not the end of the file: bytes before it are judged by the bytes after it.
        limit = min(piece.size, size)
        end = min(end, limit)
        if start >= end:
            return
        self.edges = edges = Edges(start, limit)
        base = piece.base_offset if piece.kind is LOG else None
        checks = log_checks(Scope.HEADERS, base)
        for block in LogReader(SourceWindow(source, limit), base).blocks(start):
            here = _before(block, end)
            if here is None:
                edges.end = _first_byte(block)
                return
            if len(here.batches):
                edges.batches = int(here.batches.number[-1]) + 1
            found = [finding for check in checks for finding in check.take(here, None)]
            edges.checks = facts_of(checks)
            for finding in in_order([*here.findings, *found]):
                # A batch that was being appended during planning continues past the planned end.
                if not (grew and finding.code is codes.BATCH_TRUNCATED):
                    self.found(finding)
            yield here
            if here is not block:
                edges.end = int(block.batches.position[len(here.batches)])
                return

    def records(
        self, piece: Piece, read: Callable[[Block, Limit], Records] = read_records
    ) -> Iterator[tuple[Block, Records]]:
        """The records of a piece, by runs of batches of the same kind."""
        for block in self.blocks(piece):
            chosen = self.wanted.batches(block) if self.wanted else block
            # Without the findings, which are already recorded.
            for part in decompress_ahead(replace(chosen, findings=[]), self.limit):
                for finding in part.findings:
                    self.found(finding)
                for run in runs(part):
                    records = read(run, self.limit)
                    for finding in records.findings:
                        self.found(finding)
                    yield run, records

    @property
    def changed(self) -> bool:
        """Whether the file is missing, unreadable or of a different size than planned."""
        return any(finding.code in _CHANGED for finding in self.findings)

    def is_troubled(self, piece: Piece) -> bool:
        """Whether a piece could not be read during planning; records that as a finding."""
        if piece.trouble:
            self.found(Finding(piece.path, codes.DIRECTORY_UNREADABLE, None, piece.trouble))
        return piece.trouble is not None

    def found(self, finding: Finding) -> None:
        """Record a finding; raises DamagedError for damage with fail_fast, UnreadError for an
        input that cannot be read with raises_unreadable."""
        if self.fail_fast and finding.code.severity is Severity.ERROR:
            where = "" if finding.position is None else f" byte {finding.position}"
            raise DamagedError(f"{finding.file}{where}: {finding.code.name}: {finding.message}")
        if self.raises_unreadable and finding.code in UNREADABLE:
            raise UnreadError(unread_words(finding.file, finding.message))
        self.findings.append(finding)


def facts_of(checks: list[LogCheck]) -> dict[str, Facts]:
    """The facts from each check, by check name."""
    return {type(check).__name__: check.facts for check in checks}


def _first_byte(block: Block) -> int:
    """Position of a block in its file."""
    return int(block.batches.position[0]) if len(block.batches) else block.position


def _before(block: Block, end: int) -> Block | None:
    """The batches of a block that begin before a byte; None if none does."""
    if _first_byte(block) >= end:
        return None
    keep = block.batches.position < end
    if keep.all():
        return block
    findings = [
        finding for finding in block.findings if finding.position is None or finding.position < end
    ]
    return replace(block, batches=block.batches.select(keep), findings=findings)
