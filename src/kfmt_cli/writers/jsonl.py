"""The JSON Lines of `dump --records`, read back into columns.

A line is a batch or a record; a record needs no more than a value. Bulk decoding detects what is
wrong, reading the lines again one by one says where.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from kfmt_cli.core.source import Source, open_source
from kfmt_cli.errors import InputError

PIECE = 256 << 10
LONGEST_LINE = 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
IGNORED = ("finding", "file", "summary")


class Header(msgspec.Struct, kw_only=True):
    """A header of a record."""

    key: str
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None


class Control(msgspec.Struct, kw_only=True):
    """What a control record says."""

    type: str | int
    version: int = 0
    coordinator_epoch: int | None = None


class Attributes(msgspec.Struct, kw_only=True):
    """The bits of a batch; those of `raw` that have no name are kept."""

    raw: int = 0
    compression: str | None = None
    timestamp_type: str | None = None
    transactional: bool | None = None
    control: bool | None = None
    delete_horizon: bool | None = None


class Line(msgspec.Struct, kw_only=True, gc=False):
    """A batch or a record; what is derived (sizes, positions, checksums) is not read."""

    type: str = "record"
    file: str | None = None
    # Of a record.
    offset: int | None = None
    timestamp: int | None = None
    timestamp_type: str | None = None
    key: str | None = None
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None
    headers: list[Header] | None = None
    control: Control | None = None
    transactional: bool | None = None
    # Of a batch; producers also of records that stand alone.
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


class LineError(InputError):
    """A line that is no batch or record."""


_decoder = msgspec.json.Decoder(Line)


def read_lines(path: str) -> Iterator[list[Line]]:
    """Lines in pieces; raises InputError.

    Empty lines are none; a mistake is said with the number of its line.
    """
    source = open_source(path)
    number = 1
    try:
        for piece in _whole_lines(source):
            data = piece.removeprefix(BYTE_ORDER_MARK) if number == 1 else piece
            try:
                lines = _decoder.decode_lines(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                _explain(source.name, number, data)
            yield lines
            number += data.count(b"\n")
    finally:
        source.close()


def _whole_lines(source: Source) -> Iterator[bytes]:
    at = 0
    length = PIECE
    while data := source.block(at, length, length):
        end = data.rfind(b"\n") + 1
        if len(data) < length:
            end = len(data)  # the last line may lack its end
        if not end:
            length *= 2
            if length > LONGEST_LINE:
                raise LineError(f"{source.name} byte {at}: a line of more than {length} bytes")
            continue
        yield data[:end]
        at += end
        source.release(at)
        length = PIECE


def _explain(name: str, number: int, data: bytes) -> None:
    for i, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LineError(f"{name} line {number + i}: {error}") from None
    raise LineError(f"{name} line {number}: cannot be read")


def octets(text: str | None, encoding: str | None) -> bytes | None:
    """The bytes that a string of the dump stands for; raises ValueError."""
    if text is None:
        return None
    if encoding is None:
        return text.encode()
    if encoding == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"no base64: {error}") from None
    if encoding == "hex":
        return bytes.fromhex(text)
    raise ValueError(f"cannot be turned back into bytes: its encoding is {encoding!r}")


def segment_of(file: str | None) -> tuple[str, int | None]:
    """The folder and the base offset that a line's `file` names; raises LineError.

    The folder is one plain name, or none: what is written stays below DST.
    """
    if file is None:
        return "", None
    if not file.isprintable():
        raise LineError(f"{file!r} is no name of a file")
    path = PurePath(file)
    digits = path.name.split(".", 1)[0].split("-", 1)[0]
    base = int(digits) if len(digits) == 20 and digits.isdigit() else None
    folder = path.parent.name
    return "" if folder in ("", ".", "..") else folder, base
