"""The JSON Lines of `dump --records`, read back as objects.

A line is a batch or a record; a record needs no more than a value. Lines are decoded in bulk; when
that fails, they are decoded one by one to find the line that is wrong and to say why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec
import numpy as np

from kfmt_cli.core.source import Source, open_source
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.rows.batch import BATCH
from kfmt_cli.rows.column import Kind, RowType
from kfmt_cli.rows.record import RECORD

PIECE = 256 << 10
LONGEST_LINE = 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NESTED = ("attributes", "control")  # the objects inside a line; headers are a list of them


class LineError(InputError):
    """A line that is no batch or record, or that asks for what cannot be written."""

    exit_code = ExitCode.USAGE


class Header(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A header of a record."""

    key: str
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None


class Control(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a control record says."""

    type: str | int
    version: int = 0
    coordinator_epoch: int | None = None
    data: dict[str, Any] | None = None


class Attributes(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The bits of a batch; those of `raw` that have no name are kept."""

    raw: int = 0
    compression: str | None = None
    timestamp_type: str | None = None
    transactional: bool | None = None
    control: bool | None = None
    delete_horizon: bool | None = None


class _Line(msgspec.Struct, kw_only=True, gc=False):
    """Any line. number: counted from 1; it is set after decoding, under a name no dump has."""

    number: int = msgspec.field(default=0, name="(number)")
    file: str | None = None


class _Record(_Line, kw_only=True, gc=False):
    """What is read of a record's line."""

    offset: int | None = None
    timestamp: int | None = None
    timestamp_type: str | None = None
    key: str | None = None
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None
    headers: list[Header] | None = None
    control: Control | None = None
    decoded_key: msgspec.Raw = msgspec.Raw()
    decoded_value: msgspec.Raw = msgspec.Raw()
    # Of records that stand on their own.
    transactional: bool | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None


class _Batch(_Line, kw_only=True, gc=False):
    """What is read of a batch's line."""

    magic: int | None = None
    base_offset: int | None = None
    attributes: Attributes | None = None
    partition_leader_epoch: int | None = None
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    records_count: int | None = None


def _with_derived(line: type[_Line], rows: RowType) -> type[_Line]:
    """A line with what a dump derives, too: it may be there, and it is not read."""
    known = set(line.__struct_fields__)
    types = {Kind.FLAG: bool | None, Kind.NUMBER: int | None}
    derived = [(it.name, types[it.kind], None) for it in rows.columns if it.name not in known]
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
    Record.__doc__ = "A record, of the batch line before it or on its own."
    Batch = _with_derived(_Batch, BATCH)
    Batch.__doc__ = "A batch; what it leaves out follows from the records behind it."


class Remark(_Line, tag=True):
    """A line that says what was found, not what is in a log."""


class Finding(Remark, tag="finding"):
    """A finding, as `dump` writes it between its rows."""


class File(Remark, tag="file"):
    """The result of a file, as checking commands write it."""


class Summary(Remark, tag="summary"):
    """The last line of checking commands."""


Line = Record | Batch | Remark
_ANY_LINE = Record | Batch | Finding | File | Summary
_BULK: tuple[msgspec.json.Decoder[Line], ...] = (
    msgspec.json.Decoder(_ANY_LINE),  # every line says its type
    msgspec.json.Decoder(Record),  # none does, or all of them are records
)
_SPACE_BEFORE_COLON = re.compile(rb'"[ \t\r]+:')
_decode_objects = msgspec.json.Decoder()


class _Kind(msgspec.Struct):
    type: str = "record"


_decode_kind = msgspec.json.Decoder(_Kind)
_KINDS: dict[str, msgspec.json.Decoder[Line]] = {
    "record": msgspec.json.Decoder(Record),
    "batch": msgspec.json.Decoder(Batch),
    "finding": msgspec.json.Decoder(Finding),
    "file": msgspec.json.Decoder(File),
    "summary": msgspec.json.Decoder(Summary),
}


def read_lines(path: str) -> Iterator[list[Line]]:
    """The lines of a file in pieces; raises InputError, and LineError for a line that is wrong.

    Empty lines are passed over, but counted.
    """
    source = open_source(path)
    number = 1
    try:
        for piece in whole_lines(source):
            data = piece.removeprefix(BYTE_ORDER_MARK) if number == 1 else piece
            lines = _decode(data)
            if lines is None:
                lines = list(_one_by_one(data, number))
            else:
                _set_numbers(lines, data, number)
            yield lines
            number += data.count(b"\n")
    finally:
        source.close()


def whole_lines(source: Source) -> Iterator[bytes]:
    """The bytes of a stream in pieces that end with a line; raises LineError."""
    at, number = 0, 1
    length = PIECE
    while data := source.block(at, length, length):
        end = data.rfind(b"\n") + 1
        if len(data) < length:
            end = len(data)  # the last line may lack its end
        if not end:
            length *= 2
            if length > LONGEST_LINE:
                raise wrong(number, f"it has more than {LONGEST_LINE} bytes")
            continue
        yield data[:end]
        at += end
        number += data.count(b"\n")
        source.release(at)
        length = PIECE


def _decode(data: bytes) -> list[Line] | None:
    """All lines at once; None when one of them must be looked at on its own."""
    for decoder in _BULK:
        try:
            lines = decoder.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return lines if _every_key_once(data) else None
    return None


def _every_key_once(data: bytes) -> bool:
    """Whether no object has a key twice, of which the decoder keeps the last one in silence.

    A colon behind a quote that is not escaped follows a key, so that keys can be counted in the
    text unless there is space between the two.
    """
    text = np.frombuffer(data, np.uint8)
    colon, before = text[1:] == ord(":"), text[:-1]
    if (colon & (before <= ord(" "))).any() and _SPACE_BEFORE_COLON.search(data):
        return False
    in_text = colon & (before == ord('"'))
    escaped = in_text[1:] & (text[:-2] == ord("\\"))
    n = int(np.count_nonzero(in_text)) - int(np.count_nonzero(escaped))
    objects = _decode_objects.decode_lines(data)
    n -= sum(map(len, objects))
    if not n:
        return True  # and no object lies inside another
    for it in objects:
        if headers := it.get("headers"):
            n -= sum(map(len, headers))
        for name in NESTED:
            if inner := it.get(name):
                n -= len(inner)
    return n == 0


def _set_numbers(lines: Sequence[Line], data: bytes, first: int) -> None:
    numbers: Sequence[int] = range(first, first + len(lines))
    if len(lines) != data.count(b"\n") + (not data.endswith(b"\n")):
        numbers = [first + i for i, line in enumerate(data.split(b"\n")) if line.strip()]
    for line, number in zip(lines, numbers, strict=True):
        line.number = number


def _one_by_one(data: bytes, first: int) -> Iterator[Line]:
    """The lines, each decoded on its own; raises LineError for the first that is wrong."""
    for number, text in enumerate(data.split(b"\n"), first):
        if not text.strip():
            continue
        try:
            kind = _decode_kind.decode(text).type
            if kind not in _KINDS:
                _refuse(
                    number, f"only batches and records can be built, not a line of type {kind!r}"
                )
            line = _KINDS[kind].decode(text)
            json.loads(text, object_pairs_hook=_refuse_repeated)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _refuse(number, str(error))
        except _RepeatedKeyError as error:
            _refuse(number, f"the key {error.args[0]!r} stands twice in one object")
        line.number = number
        yield line


class _RepeatedKeyError(Exception):
    """An object has a key twice."""


def _refuse_repeated(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _RepeatedKeyError(name)
        seen.add(name)


def _refuse(number: int, words: str) -> NoReturn:
    raise LineError(f"line {number}: {words}") from None


def wrong(line: Line | int, words: str) -> LineError:
    """What is wrong with a line, or the line of that number."""
    return LineError(f"line {line if isinstance(line, int) else line.number}: {words}")
