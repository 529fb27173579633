"""Builds messages in the teaching layout from JSON lines: inverse of `dump --layout notes-v0`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kfmt_cli.disk.kinds.notes import checksum
from kfmt_cli.disk.opening import open_source
from kfmt_cli.formats.batch import CODECS, COMPRESSION
from kfmt_cli.formats.legacy import NOTES_V0
from kfmt_cli.writing.build.jsonl import whole_lines, wrong
from kfmt_cli.writing.build.parse import octets


class Note(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A line. The checksum and other derived fields are computed, not read."""

    type: str = "notes_message"
    key: str | None = None
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None
    magic: int = 0
    attributes: int = 0
    file: Any = None
    position: Any = None
    size: Any = None
    crc: Any = None
    crc_valid: Any = None
    crc_computed: Any = None
    compression: Any = None
    key_size: Any = None
    value_size: Any = None


_decode = msgspec.json.Decoder(Note)


def write_notes(path: str) -> Iterator[bytes]:
    """Encode each line as a message; raises LineError, InputError."""
    source = open_source(path)
    try:
        for piece in whole_lines(source):
            for number, line in enumerate(piece.data.split(b"\n"), piece.number):
                if line.strip():
                    yield _message(line, number)
    finally:
        source.close()


def _message(line: bytes, number: int) -> bytes:
    try:
        note = _decode.decode(line)
        codec = COMPRESSION.of(note.attributes)
        if note.compression not in (None, CODECS[codec] if codec < len(CODECS) else codec):
            raise ValueError(
                f"compression {note.compression!r} contradicts attributes {note.attributes}; "
                "this layout is not compressed"
            )
        key = octets(note.key, note.key_encoding)
        value = octets(note.value, note.value_encoding)
        values = {"crc": checksum(value), "magic": note.magic, "attributes": note.attributes}
        return NOTES_V0.write({**values, "key": key, "value": value})
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise wrong(number, str(error)) from None
