"""Reads the JSON Lines of `dump --records` back as objects.

A line is a batch or a record; a record needs no more than a value. Lines are decoded in bulk. If
that fails, they are decoded one by one to find the invalid line and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import msgspec
import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.scan import line_shapes
from kfmt_cli.core.parallel import available_cores, map_ordered
from kfmt_cli.core.source import Source
from kfmt_cli.disk.opening import open_source
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.rows.column import PLACE, ColumnKind, RowType
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.record import RECORD

PIECE = 256 << 10
LONGEST_LINE = 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineError(InputError):
    """A line that is not a batch or record, or that cannot be written."""

    exit_code = ExitCode.USAGE


class HeaderOfLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A header of a record."""

    key: str
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None


class ControlOfLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The content of a control record."""

    type: str | int
    version: int = 0
    coordinator_epoch: int | None = None
    data: dict[str, Any] | None = None


class AttributesOfLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The attributes of a batch; unnamed bits of `raw` are kept."""

    raw: int = 0
    compression: str | None = None
    timestamp_type: str | None = None
    transactional: bool | None = None
    control: bool | None = None
    delete_horizon: bool | None = None


class _Line(msgspec.Struct, kw_only=True, gc=False):
    """Any line. number: counted from 1; set after decoding, under a name that no dump contains."""

    number: int = msgspec.field(default=0, name="(number)")
    file: str | None = None


class _Record(_Line, kw_only=True, gc=False):
    """The fields read from a record line."""

    offset: int | None = None
    timestamp: int | None = None
    timestamp_type: str | None = None
    key: str | None = None
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None
    headers: tuple[HeaderOfLine, ...] | None = None  # None is one object, which costs nothing
    control: ControlOfLine | None = None
    decoded_key: msgspec.Raw = msgspec.Raw()
    decoded_value: msgspec.Raw = msgspec.Raw()
    # For records without a batch line.
    transactional: bool | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None


class _Batch(_Line, kw_only=True, gc=False):
    """The fields read from a batch line."""

    magic: int | None = None
    base_offset: int | None = None
    attributes: AttributesOfLine | None = None
    partition_leader_epoch: int | None = None
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    records_count: int | None = None


def _with_derived(line: type[_Line], rows: RowType) -> type[_Line]:
    """A line type that also accepts the derived fields of a dump, which are ignored."""
    known = set(line.__struct_fields__)
    types = {ColumnKind.FLAG: bool | None, ColumnKind.NUMBER: int | None}
    derived: list[tuple[str, Any, None]] = [
        (column.name, types[column.kind], None)
        for column in rows.columns
        if column.name not in known
    ]
    derived += [(name, int | str | None, None) for name in PLACE]
    name = rows.name.capitalize()
    made = msgspec.defstruct(
        name,
        derived,
        bases=(line,),
        kw_only=True,
        gc=False,
        tag=rows.name,
        forbid_unknown_fields=True,
    )
    return cast(type[_Line], made)


if TYPE_CHECKING:
    Record = _Record
    Batch = _Batch
else:
    Record = _with_derived(_Record, RECORD)
    Record.__doc__ = "A record, belonging to the preceding batch line or standalone."
    Batch = _with_derived(_Batch, BATCH)
    Batch.__doc__ = "A batch; omitted fields are derived from the records after it."


class Remark(_Line, tag=True):
    """A line with a finding or a result, not with log content."""


class FindingLine(Remark, tag="finding"):
    """A finding, as `dump` writes it between its rows."""


class FileLine(Remark, tag="file"):
    """The result for a file, as checking commands write it."""


class SummaryLine(Remark, tag="summary"):
    """The summary that ends the output of checking commands."""


Line = Record | Batch | Remark
_ANY_LINE = Record | Batch | FindingLine | FileLine | SummaryLine
_TYPED: msgspec.json.Decoder[Line] = msgspec.json.Decoder(_ANY_LINE)  # every line has a type
_RECORDS: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Record)  # with or without one
MOST_SHAPES = 1 << 16
_sound_shapes: set[int] = set()  # shapes of lines without a duplicate key


class _TypeOfLine(msgspec.Struct):
    type: str = "record"


_decode_kind = msgspec.json.Decoder(_TypeOfLine)
_KINDS = {line.__struct_config__.tag for line in get_args(_ANY_LINE)}


def read_lines(path: str) -> Iterator[list[Line]]:
    """The lines of a file in pieces; raises InputError, and LineError for an invalid line.

    Empty lines are skipped, but counted.
    """
    source = open_source(path)
    try:
        # Another core finds the keys of each line while the previous lines are processed.
        for piece, shapes in map_ordered(_with_shapes, whole_lines(source), available_cores() > 1):
            lines = _decode(piece, shapes)
            if lines is None:
                lines = list(_one_by_one(piece))
            else:
                _set_numbers(lines, piece)
            yield lines
    finally:
        source.close()


class LinesPiece(NamedTuple):
    """A piece of complete lines."""

    data: bytes
    number: int
    """The number of the first line."""
    n_ends: int
    """The number of line ends."""


def whole_lines(source: Source) -> Iterator[LinesPiece]:
    """Split a stream into pieces that end with a line; raises LineError."""
    at, number = 0, 1
    length = PIECE
    while data := source.block(at, length, length):
        end = data.rfind(b"\n") + 1
        if len(data) < length:
            end = len(data)  # the last line may lack its newline
        if not end:
            length *= 2
            if length > LONGEST_LINE:
                raise wrong(number, f"longer than {LONGEST_LINE} bytes")
            continue
        at += end
        source.prefetch(at, PIECE)
        start = len(BYTE_ORDER_MARK) if number == 1 and data.startswith(BYTE_ORDER_MARK) else 0
        piece = LinesPiece(data[start:end], number, data.count(b"\n"))
        yield piece
        number += piece.n_ends
        source.release(at)
        length = PIECE


def _decode(piece: LinesPiece, shapes: IntArray) -> list[Line] | None:
    """Decode all lines at once; None if one of them must be decoded separately."""
    for decoder in (_TYPED, _RECORDS):
        try:
            lines = decoder.decode_lines(piece.data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return lines if _every_key_once(piece.data, shapes) else None
    return None


def _with_shapes(piece: LinesPiece) -> tuple[LinesPiece, IntArray]:
    """The piece, and for each line its end and a hash of its keys, from `line_shapes`."""
    lines = np.empty((2, piece.n_ends + 1), np.int64)
    return piece, lines[:, : line_shapes(piece.data, len(piece.data), lines)]


def _every_key_once(data: bytes, shapes: IntArray) -> bool:
    """Whether no object has a duplicate key; the decoder silently keeps the last one.

    Lines with the same keys in the same objects have one shape, so only one of them is checked.
    """
    ends, hashes = shapes
    unlike, examples = np.unique(hashes, return_index=True)
    for shape, i in zip(unlike.tolist(), examples.tolist(), strict=True):
        if shape in _sound_shapes:
            continue
        text = data[int(ends[i - 1]) if i else 0 : int(ends[i])]
        try:
            if text.strip():
                _check_keys(text)
        except (_RepeatedKeyError, RecursionError):
            return False
        if len(_sound_shapes) < MOST_SHAPES:
            _sound_shapes.add(shape)
    return True


def _set_numbers(lines: Sequence[Line], piece: LinesPiece) -> None:
    first, data = piece.number, piece.data
    numbers: Sequence[int] = range(first, first + len(lines))
    if len(lines) != piece.n_ends + (not data.endswith(b"\n")):
        numbers = [first + i for i, line in enumerate(data.split(b"\n")) if line.strip()]
    for line, number in zip(lines, numbers, strict=True):
        line.number = number


def _one_by_one(piece: LinesPiece) -> Iterator[Line]:
    """Decode the lines one by one; raises LineError for the first invalid one."""
    for number, text in enumerate(piece.data.split(b"\n"), piece.number):
        if not text.strip():
            continue
        try:
            kind = _decode_kind.decode(text).type
            if kind not in _KINDS:
                raise wrong(number, f"only batch and record lines can be built, not {kind!r}")
            line = (_RECORDS if kind == "record" else _TYPED).decode(text)
            _check_keys(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise wrong(number, str(error)) from None
        except _RepeatedKeyError as error:
            raise wrong(number, f"duplicate key {error.args[0]!r} in one object") from None
        line.number = number
        yield line


class _RepeatedKeyError(Exception):
    """An object has a duplicate key."""


def _check_keys(text: bytes) -> None:
    """Raise _RepeatedKeyError if an object in a line has a duplicate key."""
    # Numbers as strings: Python refuses to parse too many digits.
    json.loads(text, object_pairs_hook=_refuse_repeated, parse_int=str)


def _refuse_repeated(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _RepeatedKeyError(name)
        seen.add(name)


def wrong(line: Line | int, words: str) -> LineError:
    """The error for a line, given as object or number."""
    return LineError(f"line {line if isinstance(line, int) else line.number}: {words}")
