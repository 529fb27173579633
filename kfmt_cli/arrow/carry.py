"""Rows of some inputs, copied from the files of an earlier export to new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from kfmt_cli.arrow.file_formats import FILE_FORMATS
from kfmt_cli.arrow.lake import Output
from kfmt_cli.arrow.output import appearing
from kfmt_cli.core.file_systems import file_system_at, one_line
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import InputError


def carried(
    output: Output, numbers: Mapping[int, int], place: str, to: str, named: str, format_: str
) -> Output | None:
    """Copy the rows of some pieces of a file; None if it has none of them. Raises InputError,
    OutputError.

    numbers: the new number in the bundle of each piece to keep. place: the file. to, named: the
    directory and the name of the new one.
    """
    made = Output(named, output.table)
    spans: list[tuple[int, int]] = []
    at = 0
    for piece, length, rows in output.spans:
        if piece < 0 or piece in numbers:
            spans.append((at, at + length))
            made.add_span(numbers.get(piece, -1), length, rows)
        at += length
    if not made.rows:
        return None
    with _opened(place) as source, appearing(f"{to}/{named}") as out:
        FILE_FORMATS[format_].copy(source, out, spans)
        made.bytes = out.tell()
    return made


@contextmanager
def _opened(place: str) -> Iterator[BinaryIO]:
    """A file of an export; raises InputError."""
    source: Any
    try:
        if is_local(place):
            source = Path(local(place)).open("rb")  # noqa: SIM115 (closed below)
        else:
            system, below = file_system_at(place)
            source = system.open_input_file(below)
    except Exception as error:  # fsspec's file systems raise many kinds
        raise InputError(f"{place}: {one_line(error)}") from error
    with source:
        yield source
