"""Rows of some inputs, copied from the files of an earlier export to new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
from kfmt_cli.arrow.export.lake import Output
from kfmt_cli.arrow.export.output import appearing
from kfmt_cli.disk.opening import file_at
from kfmt_cli.rows.table_types import has_records


@dataclass(frozen=True, slots=True)
class KeptPiece:
    """What stays of a piece."""

    number: int
    """Its new number in the bundle."""
    below: int | None = None
    """Only rows before the first at or above this offset."""


def carried(
    output: Output, pieces: Mapping[int, KeptPiece], place: str, to: str, named: str, format_: str
) -> Output | None:
    """Copy the rows of some pieces of a file; None if it has none of them. Raises InputError,
    OSError, OutputError.

    pieces: by number, those to keep. place: the file. to, named: the directory and the name of the
    new one.
    """
    made, made_by = Output(named, output.table), FILE_FORMATS[format_]
    column = "offset" if has_records(output.table) else "last_offset"
    spans: list[tuple[int, int]] = []
    at = 0
    with file_at(place) as source:
        for piece, length, rows in output.spans:
            kept = KeptPiece(piece) if piece < 0 else pieces.get(piece)
            if kept is not None:
                some = length, rows
                if kept.below is not None:
                    some = made_by.below(source, (at, at + length), kept.below, column)
                spans.append((at, at + some[0]))
                made.add_span(kept.number, *some)
            at += length
        if not made.rows:
            return None
        with appearing(f"{to}/{named}") as out:
            made_by.copy(source, out, spans)
            made.bytes = out.tell()
    return made
