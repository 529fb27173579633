"""Builds messages of the teaching layout from JSON lines: inverse of `dump --layout notes-v0`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.notes_v0 import notes_checksum
from kfmt_cli.formats.batch import CODECS, COMPRESSION
from kfmt_cli.formats.legacy import NOTES_V0
from kfmt_cli.writers.build.json_columns import decode_text_to_bytes
from kfmt_cli.writers.build.jsonl import iter_line_chunks, line_error, require_unique_keys


class NotesLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A message line. The checksum and other derived fields are accepted, but computed again."""

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


_LINE_DECODER = msgspec.json.Decoder(NotesLine)


def iter_encoded_notes(notes_path: str) -> Iterator[bytes]:
    """Encode each line as a message; raises LineError, InputError."""
    source = open_source(notes_path)
    try:
        for chunk in iter_line_chunks(source):
            for line_number, line in enumerate(chunk.data.split(b"\n"), chunk.first_line_number):
                if line.strip():
                    yield _encode_note(line, line_number)
    finally:
        source.close()


def _encode_note(line: bytes, line_number: int) -> bytes:
    try:
        notes_line = _LINE_DECODER.decode(line)
        require_unique_keys(line)
        codec = COMPRESSION.extract_value(notes_line.attributes)
        if notes_line.compression not in (None, CODECS[codec] if codec < len(CODECS) else codec):
            raise ValueError(
                f"compression {notes_line.compression!r} contradicts attributes "
                f"{notes_line.attributes}; "
                "this layout is not compressed"
            )
        key = decode_text_to_bytes(notes_line.key, notes_line.key_encoding)
        value = decode_text_to_bytes(notes_line.value, notes_line.value_encoding)
        header_values = {
            "crc": notes_checksum(value),
            "magic": notes_line.magic,
            "attributes": notes_line.attributes,
        }
        return NOTES_V0.encode_row({**header_values, "key": key, "value": value})
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise line_error(line_number, str(error)) from None
