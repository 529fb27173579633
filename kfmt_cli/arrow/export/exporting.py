"""Records and batches as files that a data lake reads directly."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from urllib.parse import quote

from kfmt_cli.arrow.columns.tables import PieceRead
from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
from kfmt_cli.arrow.export.lake import Files, Lake, Output
from kfmt_cli.arrow.inputs import at_hand
from kfmt_cli.findings.finding import Finding
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.read_piece import Edges
from kfmt_cli.sharing.request import Request


@dataclass(slots=True)
class Exported:
    """The result of exporting a bundle of pieces."""

    outputs: list[Output] = field(default_factory=list)
    read: dict[str, list[PieceRead]] = field(default_factory=dict)
    """By table: the result for each piece."""

    def pieces(self) -> Iterator[PieceExported]:
        """The result for each piece, over all tables."""
        for read in zip(*self.read.values(), strict=True):
            rows = {table: piece.rows for table, piece in zip(self.read, read, strict=True)}
            most = max(read, key=lambda piece: len(piece.findings))
            offsets = read[0].first_offset, read[0].last_offset
            yield PieceExported(rows, offsets, most.findings, read[-1].edges)


@dataclass(slots=True)
class PieceExported:
    """The result of exporting a piece."""

    rows: dict[str, int]
    """Number of rows, by table."""
    offsets: tuple[int | None, int | None]
    """First and last offset of the rows."""
    findings: list[Finding]
    edges: Edges | None


def export_bundle(
    request: Request, pieces: Sequence[Piece], to: str, lake: Lake, salt: str = ""
) -> Exported:
    """Write the tables of some pieces under a directory; raises OutputError, WorkError.

    salt: makes the files' names differ from those of the same pieces with another.
    """
    done, stem, made = Exported(), _stem(pieces, salt), FILE_FORMATS[lake.format]
    for table in lake.tables_of(pieces):
        read = done.read[table] = [PieceRead() for _ in pieces]
        opened = Files(to, table, lake, stem, made.suffix)
        with at_hand(request, pieces), opened as files:
            made.write(files, request, pieces, read)
        done.outputs += files.done
    return done


def _stem(pieces: Sequence[Piece], salt: str) -> str:
    """A name for the files made from pieces: the start of the first, and a hash of all. It does not
    begin with _ or ., as Spark, Hive and Trino treat such files as hidden."""
    first = pieces[0]
    topic, partition = first.place
    quoted = "" if topic is None else quote(os.fsencode(topic)[:60], safe="").lstrip("_.")
    named = "" if topic is None else f"{quoted}-{partition}-"
    which = blake2b(salt.encode(), digest_size=6)
    for piece in pieces:
        about = (piece.path, piece.start, piece.end, piece.size, piece.modified)
        which.update(repr(about).encode(errors="backslashreplace"))
    return f"{named}{first.base:020}-{first.start:012}-{which.hexdigest()}"
