"""The tables of `kfmt sql`: read when a query asks, and only the files and columns it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from threading import Event

import pyarrow as pa

from kfmt_cli.arrow.columns.tables import MAKERS, PieceRead, rows_of
from kfmt_cli.arrow.condition import Condition
from kfmt_cli.arrow.inputs import at_hand, files_of, input_of
from kfmt_cli.core.urls import absolute, name_text
from kfmt_cli.disk.given import troubles
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.names import identity
from kfmt_cli.disk.opening import open_source
from kfmt_cli.errors import InputError
from kfmt_cli.findings.damage import UNREAD
from kfmt_cli.findings.finding import is_error
from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.rows.table_types import FINDINGS, has_records
from kfmt_cli.sharing.piece import MIB, Piece, pack, telling
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request

SHARE = 8 * MIB  # bytes to read between two looks at whether to go on


@dataclass(slots=True)
class ReadSoFar:
    """What the tables of a query met; they are read in threads of DuckDB."""

    unread: dict[str, None] = field(default_factory=dict)
    """Messages about inputs that could not be read, each once."""
    damaged: dict[str, int] = field(default_factory=dict)
    """The errors found in each file."""
    stopped: Event = field(default_factory=Event)
    """Set when nobody wants more rows."""

    def take(self, piece: Piece, read: PieceRead) -> None:
        """Remember the findings of a piece."""
        errors = 0
        for finding in read.findings:
            if finding.code in UNREAD:
                self.unread[name_text(finding.message)] = None
            else:
                errors += is_error(finding)
        if errors:
            self.damaged[piece.path] = errors


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table of some paths."""

    request: Request
    so_far: ReadSoFar

    def parts(self, columns: Sequence[str], condition: Condition) -> Iterator[pa.RecordBatch]:
        """Arrow batches with these columns: all rows that can pass a filter, and others."""
        table = self.request.table
        wanted = condition.selection(table)
        asked = Asked(wanted) if has_records(table) else Asked()
        is_deep = table == FINDINGS.name  # of all that a query of records can meet
        request = replace(self.request, columns=tuple(columns), asked=asked, deep=is_deep)
        files = self._files(condition, wanted)
        for share in files.shared(pack(files, SHARE)):
            rows = self._whole_files if table in MAKERS else self._logs
            with at_hand(request, share):
                for part in rows(request, share):
                    if self.so_far.stopped.is_set():
                        return
                    yield part
            if self.so_far.stopped.is_set():
                return

    def _files(self, condition: Condition, wanted: Selection) -> Pieces:
        """The files that can have rows that pass."""

        @cache
        def is_asked(topic: str | None, partition: int | None) -> bool:
            name = None if topic is None else name_text(topic)
            return condition.allows(topic=name, partition=partition)

        def can_pass(piece: Piece) -> bool:
            if not is_asked(*piece.place):
                return False
            return "file" not in condition.names or condition.allows(file=name_text(piece.path))

        return _near(Pieces(self._listed()).in_order().those(can_pass), wanted)

    def _listed(self) -> Iterator[Piece]:
        """The files of all paths, each once, named after the first path that leads to it."""
        seen: set[str] = set()
        for path in self.request.paths:
            for words in troubles(path):
                self.so_far.unread[words] = None
            try:
                files = files_of(replace(self.request, paths=(path,)))
            except InputError as error:
                self.so_far.unread[name_text(str(error))] = None
                continue
            top = absolute(path).rstrip(os.sep)
            for piece in files:
                real = identity(piece.path)
                if real in seen:
                    continue
                seen.add(real)
                named = replace(piece, path=path.rstrip(os.sep) + piece.path.removeprefix(top))
                if piece.trouble is None:
                    yield named
                else:
                    self.so_far.unread[f"{name_text(named.path)}: {piece.trouble}"] = None

    def _logs(self, request: Request, pieces: Pieces) -> Iterator[pa.RecordBatch]:
        """Records or batches."""
        read = [PieceRead() for _ in pieces]
        try:
            yield from rows_of(request, pieces, read)
        finally:
            for piece, its in zip(pieces, read, strict=True):
                self.so_far.take(piece, its)

    def _whole_files(self, request: Request, pieces: Pieces) -> Iterator[pa.RecordBatch]:
        """Rows of tables that read each file as a whole."""
        for piece in pieces:
            try:
                open_source(piece.path).close()  # rows do not say that it could not be read
            except InputError as error:
                self.so_far.unread[str(error)] = None
                continue
            read = PieceRead()
            try:
                with telling(piece):
                    yield from MAKERS[request.table](request, piece, read.findings)
            finally:
                self.so_far.take(piece, read)


def _near(files: Pieces, wanted: Selection) -> Pieces:
    """The files without logs whose offsets, by their names, are out of bounds."""
    if wanted.first_offset is None and wanted.last_offset is None:
        return files
    kept = set()
    for kind, pieces in groupby(files, key=lambda piece: (piece.folder, piece.kind)):
        logs = [input_of(piece) for piece in pieces]
        kept |= {log.path for log in (wanted.logs(logs) if kind[1] is LOG else logs)}
    return files.those(lambda piece: piece.path in kept)
