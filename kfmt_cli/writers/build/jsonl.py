"""Reads the JSON Lines of `dump --records` back as objects.

A line is a batch or a record; a record only needs a value. Lines are decoded in bulk. If that
fails, they are decoded one by one to find the invalid line and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import msgspec
import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.scan import hash_json_lines
from kfmt_cli.core.parallel import available_cores, map_ordered
from kfmt_cli.core.source import Source
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.errors import ExitCode, InputError
from kfmt_cli.rows.column import LOCATION_COLUMNS, ColumnKind, RowType
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import RECORD_ROW

LINE_CHUNK_BYTES = 256 << 10
MAX_LINE_BYTES = 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineError(InputError):
    """A line that is not a batch or record, or that cannot be encoded."""

    exit_code = ExitCode.USAGE


class HeaderJson(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A header of a record."""

    key: str
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None


class ControlJson(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The content of a control record."""

    type: str | int
    version: int = 0
    coordinator_epoch: int | None = None
    data: dict[str, Any] | None = None


class AttributesJson(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The attributes of a batch. Named attributes override their bits in `raw`."""

    raw: int = 0
    compression: str | None = None
    timestamp_type: str | None = None
    transactional: bool | None = None
    control: bool | None = None
    delete_horizon: bool | None = None


class _Line(msgspec.Struct, kw_only=True, gc=False):
    """Any line. number: from 1; set after decoding, with a JSON name that no dump contains."""

    number: int = msgspec.field(default=0, name="(number)")
    file: str | None = None


class _RecordFields(_Line, kw_only=True, gc=False):
    """The fields read from a record line."""

    offset: int | None = None
    timestamp: int | None = None
    timestamp_type: str | None = None
    key: str | None = None
    key_encoding: str | None = None
    value: str | None = None
    value_encoding: str | None = None
    headers: tuple[HeaderJson, ...] | None = None  # None is a shared object, so it takes no memory
    control: ControlJson | None = None
    decoded_key: msgspec.Raw = msgspec.Raw()
    decoded_value: msgspec.Raw = msgspec.Raw()
    # Fields only of records without a batch line.
    transactional: bool | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None


class _BatchFields(_Line, kw_only=True, gc=False):
    """The fields read from a batch line."""

    magic: int | None = None
    base_offset: int | None = None
    attributes: AttributesJson | None = None
    partition_leader_epoch: int | None = None
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    records_count: int | None = None


def _line_type_with_derived_fields(line_type: type[_Line], row_type: RowType) -> type[_Line]:
    """A line type that also accepts the derived fields of a dump, which are ignored."""
    field_names = set(line_type.__struct_fields__)
    type_by_column_kind = {ColumnKind.FLAG: bool | None, ColumnKind.NUMBER: int | None}
    derived_fields: list[tuple[str, Any, None]] = [
        (column.name, type_by_column_kind[column.kind], None)
        for column in row_type.columns
        if column.name not in field_names
    ]
    derived_fields += [(name, int | str | None, None) for name in LOCATION_COLUMNS]
    name = row_type.name.capitalize()
    extended_type = msgspec.defstruct(
        name,
        derived_fields,
        bases=(line_type,),
        kw_only=True,
        gc=False,
        tag=row_type.name,
        forbid_unknown_fields=True,
    )
    return cast(type[_Line], extended_type)


if TYPE_CHECKING:
    RecordLine = _RecordFields
    BatchLine = _BatchFields
else:
    RecordLine = _line_type_with_derived_fields(_RecordFields, RECORD_ROW)
    RecordLine.__doc__ = "A record, belonging to the preceding batch line or standalone."
    BatchLine = _line_type_with_derived_fields(_BatchFields, BATCH_ROW)
    BatchLine.__doc__ = "A batch; omitted fields are derived from the records after it."


class IgnoredLine(_Line, tag=True):
    """A line with a finding or a result, not with log content."""


class FindingLine(IgnoredLine, tag="finding"):
    """A finding, as `dump` writes it between its rows."""


class FileLine(IgnoredLine, tag="file"):
    """The result for a file, as checking commands write it."""


class SummaryLine(IgnoredLine, tag="summary"):
    """The summary that ends the output of checking commands."""


BuildLine = RecordLine | BatchLine | IgnoredLine
_ANY_LINE_TYPE = RecordLine | BatchLine | FindingLine | FileLine | SummaryLine
# Decodes chunks in which every line has a type.
_TYPED_DECODER: msgspec.json.Decoder[BuildLine] = msgspec.json.Decoder(_ANY_LINE_TYPE)
# Decodes chunks of records with or without a type.
_RECORD_DECODER: msgspec.json.Decoder[BuildLine] = msgspec.json.Decoder(RecordLine)
MAX_CACHED_KEY_SHAPES = 1 << 16
_checked_key_shapes: set[int] = set()  # shapes of lines without a duplicate key


class _LineTypeJson(msgspec.Struct):
    type: str = "record"


_LINE_TYPE_DECODER = msgspec.json.Decoder(_LineTypeJson)
_LINE_TYPES = {line.__struct_config__.tag for line in get_args(_ANY_LINE_TYPE)}


def read_lines(path: str) -> Iterator[list[BuildLine]]:
    """The lines of a file in chunks; raises InputError, and LineError for an invalid line.

    Empty lines are skipped, but counted.
    """
    source = open_source(path)
    try:
        # Another core finds the keys of each line while the previous lines are processed.
        for chunk, key_shapes in map_ordered(
            _scan_key_shapes, iter_line_chunks(source), available_cores() > 1
        ):
            lines = _decode_chunk(chunk, key_shapes)
            if lines is None:
                lines = list(_iter_separately_decoded(chunk))
            else:
                _set_line_numbers(lines, chunk)
            yield lines
    finally:
        source.close()


class LineChunk(NamedTuple):
    """A chunk of complete lines. first_line_number: from 1."""

    data: bytes
    first_line_number: int
    n_newlines: int


def iter_line_chunks(source: Source) -> Iterator[LineChunk]:
    """Split a stream into chunks of complete lines; raises LineError if a line is too long."""
    position, line_number = 0, 1
    read_bytes = LINE_CHUNK_BYTES
    while data := source.read_block(position, read_bytes, read_bytes):
        chunk_end = data.rfind(b"\n") + 1
        if len(data) < read_bytes:
            chunk_end = len(data)  # the last line may lack its newline
        if not chunk_end:
            read_bytes *= 2
            if read_bytes > MAX_LINE_BYTES:
                raise line_error(line_number, f"longer than {MAX_LINE_BYTES} bytes")
            continue
        position += chunk_end
        source.prefetch_block(position, LINE_CHUNK_BYTES)
        text_start = (
            len(BYTE_ORDER_MARK) if line_number == 1 and data.startswith(BYTE_ORDER_MARK) else 0
        )
        chunk = LineChunk(data[text_start:chunk_end], line_number, data.count(b"\n"))
        yield chunk
        line_number += chunk.n_newlines
        source.release_bytes_before(position)
        read_bytes = LINE_CHUNK_BYTES


def _decode_chunk(chunk: LineChunk, key_shapes: IntArray) -> list[BuildLine] | None:
    """Decode all lines at once; None if one of them must be decoded separately."""
    for decoder in (_TYPED_DECODER, _RECORD_DECODER):
        try:
            lines = decoder.decode_lines(chunk.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        return lines if _has_unique_keys(chunk.data, key_shapes) else None
    return None


def _scan_key_shapes(chunk: LineChunk) -> tuple[LineChunk, IntArray]:
    """The chunk, and for each line its end and a hash of its keys, from `hash_json_lines`."""
    ends_and_hashes = np.empty((2, chunk.n_newlines + 1), np.int64)
    return chunk, ends_and_hashes[
        :, : hash_json_lines(chunk.data, len(chunk.data), ends_and_hashes)
    ]


def _has_unique_keys(data: bytes, key_shapes: IntArray) -> bool:
    """Whether no object has a duplicate key; the decoder silently keeps the last one.

    Lines with the same keys in the same objects have one shape, so only one of them is checked.
    """
    line_ends, key_hashes = key_shapes
    distinct_hashes, first_line_indexes = np.unique(key_hashes, return_index=True)
    for key_hash, line_index in zip(
        distinct_hashes.tolist(), first_line_indexes.tolist(), strict=True
    ):
        if key_hash in _checked_key_shapes:
            continue
        line_text = data[
            int(line_ends[line_index - 1]) if line_index else 0 : int(line_ends[line_index])
        ]
        try:
            if line_text.strip():
                require_unique_keys(line_text)
        except (ValueError, RecursionError):  # several values in a line, too
            return False
        if len(_checked_key_shapes) < MAX_CACHED_KEY_SHAPES:
            _checked_key_shapes.add(key_hash)
    return True


def _set_line_numbers(lines: Sequence[BuildLine], chunk: LineChunk) -> None:
    first_line_number, data = chunk.first_line_number, chunk.data
    line_numbers: Sequence[int] = range(first_line_number, first_line_number + len(lines))
    if len(lines) != chunk.n_newlines + (not data.endswith(b"\n")):
        line_numbers = [
            first_line_number + i for i, line in enumerate(data.split(b"\n")) if line.strip()
        ]
    for line, line_number in zip(lines, line_numbers, strict=True):
        line.number = line_number


def _iter_separately_decoded(chunk: LineChunk) -> Iterator[BuildLine]:
    """Decode the lines one by one; raises LineError for the first invalid one."""
    for line_number, line_text in enumerate(chunk.data.split(b"\n"), chunk.first_line_number):
        if not line_text.strip():
            continue
        try:
            line_type = _LINE_TYPE_DECODER.decode(line_text).type
            if line_type not in _LINE_TYPES:
                raise line_error(
                    line_number, f"only batch and record lines can be built, not {line_type!r}"
                )
            line = (_RECORD_DECODER if line_type == "record" else _TYPED_DECODER).decode(line_text)
            require_unique_keys(line_text)
        except (
            msgspec.DecodeError,
            UnicodeDecodeError,
            RecursionError,
            DuplicateKeyError,
        ) as error:
            raise line_error(line_number, str(error)) from None
        line.number = line_number
        yield line


class DuplicateKeyError(ValueError):
    """An object has a duplicate key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"duplicate key {key!r} in one object")


def require_unique_keys(line_text: bytes) -> None:
    """Raise DuplicateKeyError if an object in a line has a duplicate key."""
    # Numbers as strings: Python refuses to parse too many digits.
    json.loads(line_text, object_pairs_hook=_reject_duplicate_keys, parse_int=str)


def _reject_duplicate_keys(keys_and_values: list[tuple[str, object]]) -> None:
    visited_keys: set[str] = set()
    for key, _ in keys_and_values:
        if key in visited_keys:
            raise DuplicateKeyError(key)
        visited_keys.add(key)


def line_error(line: BuildLine | int, message: str) -> LineError:
    """The error for a line. line: the line or its number."""
    return LineError(f"line {line if isinstance(line, int) else line.number}: {message}")
