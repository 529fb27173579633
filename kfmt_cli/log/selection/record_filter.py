"""Filter records by key, value, headers and producer."""

from __future__ import annotations

import base64
import operator
import os
import struct
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.errors import UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.log.selection.regex import BytesRegex, compile_regex
from kfmt_cli.rows.log_tables import BatchTable

Pattern = bytes | BytesRegex
MAX_COLUMN_COMPARED_BYTES = 32  # bytes of a pattern compared in columns


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Criteria for a record. A pattern is the exact bytes, or a regular expression to search
    for."""

    key_pattern: Pattern | None = None
    value_pattern: Pattern | None = None
    header_patterns: tuple[tuple[bytes, Pattern | None], ...] = ()
    """Name and pattern, None for any value."""
    producer_id: int | None = None
    """The producer of its batch."""

    def __bool__(self) -> bool:
        """Whether there are any criteria."""
        return self != RecordFilter()

    @property
    def needs_records(self) -> bool:
        """Whether the records must be read, not only the batch headers."""
        return (
            self.key_pattern is not None
            or self.value_pattern is not None
            or bool(self.header_patterns)
        )

    def batch_mask(self, batches: BatchTable) -> BoolArray:
        """Which batches can contain a match, by their headers."""
        if self.producer_id is None:
            return np.ones(len(batches), np.bool_)
        has_producer: BoolArray = (batches.producer_id == self.producer_id) & (batches.is_v2 == 1)
        return has_producer

    def prefilter_batches(self, block: Block) -> Block:
        """The block without the batches whose bytes lack the longest exact pattern.

        Unchanged without an exact pattern, or if the pattern is too frequent, the records are not
        decompressed yet, or a batch has magic 0 or 1.
        """
        patterns = [
            self.key_pattern,
            self.value_pattern,
            *(header_pattern for _, header_pattern in self.header_patterns),
        ]
        exact_patterns = [pattern for pattern in patterns if isinstance(pattern, bytes) and pattern]
        batches = block.batches
        is_uncompressed = block.decompressed is not None or not batches.compression.any()
        if not exact_patterns or not is_uncompressed or not batches.is_v2.all():
            return block
        stored_records = (block.data, batches.start, batches.end)
        data, starts, ends = block.decompressed or stored_records
        match_positions = _find_pattern_positions(data, max(exact_patterns, key=len), len(batches))
        if match_positions is None:
            return block
        matching_rows = np.searchsorted(starts, match_positions, side="right") - 1
        has_pattern = np.zeros(len(batches), np.bool_)
        has_pattern[
            matching_rows[(matching_rows >= 0) & (match_positions < ends[matching_rows])]
        ] = True
        if has_pattern.all():
            return block
        decompressed = (
            None if block.decompressed is None else (data, starts[has_pattern], ends[has_pattern])
        )
        return replace(block, batches=batches.select_rows(has_pattern), decompressed=decompressed)

    def matching_rows(
        self, run: Block, records: RecordColumns, candidate_rows: IntArray
    ) -> IntArray:
        """Those of the given rows whose records match."""
        if self.producer_id is not None:
            batch_of_row = np.searchsorted(records.row_ends, candidate_rows, side="right")
            candidate_rows = candidate_rows[
                run.batches.producer_id[batch_of_row] == self.producer_id
            ]
        for column, pattern in (("key", self.key_pattern), ("value", self.value_pattern)):
            if pattern is not None:
                candidate_rows = _rows_with_payload(records, candidate_rows, column, pattern)
        for header_name, pattern in self.header_patterns:
            rows_with_header = [
                row
                for row in candidate_rows.tolist()
                if _has_header(records, row, header_name, pattern)
            ]
            candidate_rows = np.array(rows_with_header, np.int64)
        return candidate_rows


def _find_pattern_positions(data: bytes, pattern: bytes, n_batches: int) -> IntArray | None:
    """Where a pattern occurs; None if it is too frequent to narrow the search down."""
    positions = []
    position = data.find(pattern)
    while position >= 0:
        positions.append(position)
        if len(positions) > 4 * n_batches:
            return None
        position = data.find(pattern, position + 1)
    return np.array(positions, np.int64)


def _rows_with_payload(
    records: RecordColumns, rows: IntArray, column: str, pattern: Pattern
) -> IntArray:
    data, payload_starts, payload_sizes = (
        records.data,
        records.rows[column],
        records.rows[f"{column}_size"],
    )
    is_match: Callable[[bytes], object]
    if isinstance(pattern, bytes):
        candidate_rows = _rows_with_prefix(
            data, rows[payload_sizes[rows] == len(pattern)], payload_starts, pattern
        )
        if len(pattern) <= MAX_COLUMN_COMPARED_BYTES:
            return candidate_rows
        is_match = partial(operator.eq, pattern)
    else:
        prefix = pattern.literal_prefix
        candidate_rows = _rows_with_prefix(
            data, rows[payload_sizes[rows] >= len(prefix)], payload_starts, prefix
        )
        is_match = pattern.search_function(int(payload_sizes[candidate_rows].max(initial=0)))
    row_bounds = zip(
        candidate_rows.tolist(),
        payload_starts[candidate_rows].tolist(),
        payload_sizes[candidate_rows].tolist(),
        strict=True,
    )
    return np.array(
        [
            row
            for row, payload_start, payload_size in row_bounds
            if is_match(data[payload_start : payload_start + payload_size])
        ],
        np.int64,
    )


def _rows_with_prefix(
    data: bytes, rows: IntArray, payload_starts: IntArray, prefix: bytes
) -> IntArray:
    """The rows whose content begins with the first `MAX_COLUMN_COMPARED_BYTES` bytes of `prefix`,
    which must not be longer than the content."""
    byte_array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = np.frombuffer(data, np.uint8)
    content_starts = payload_starts[rows]
    for i, prefix_byte in enumerate(prefix[:MAX_COLUMN_COMPARED_BYTES]):
        is_equal = byte_array[content_starts + i] == prefix_byte
        rows, content_starts = rows[is_equal], content_starts[is_equal]
    return rows


def read_record_headers(records: RecordColumns, row: int) -> list[tuple[bytes, bytes | None]]:
    """The headers of a record; none for a message of magic 0 or 1."""
    rows, data = records.rows, records.data
    if "headers" not in rows.index_by_name or rows.headers[row] <= 0:
        return []
    first_header = rows.headers_first[row]
    header_columns = records.headers[:4, first_header : first_header + rows.headers[row]]
    headers = []
    for key_start, key_size, value_start, value_size in header_columns.T.tolist():
        header_value = None if value_size < 0 else data[value_start : value_start + value_size]
        headers.append((data[key_start : key_start + key_size], header_value))
    return headers


def _has_header(
    records: RecordColumns, row: int, expected_name: bytes, pattern: Pattern | None
) -> bool:
    for header_name, header_value in read_record_headers(records, row):
        if header_name != expected_name:
            continue
        if pattern is None:
            return True
        if header_value is None:
            continue
        if (
            header_value == pattern
            if isinstance(pattern, bytes)
            else pattern.matches_anywhere(header_value)
        ):
            return True
    return False


def parse_record_filter(
    key: str | None, value: str | None, headers: Iterable[str], producer_id: int | None
) -> RecordFilter:
    """Parse criteria for records from option values; raises UsageError."""
    return RecordFilter(
        None if key is None else parse_pattern("--key", key),
        None if value is None else parse_pattern("--value", value),
        tuple(map(_parse_header_criterion, headers)),
        producer_id,
    )


def parse_pattern(option_name: str, text: str) -> Pattern:
    """Parse a pattern: text, a regular expression after ~, or a value after the name of its
    encoding and a colon. Raises UsageError."""
    if text.startswith("~"):
        try:
            return compile_regex(text[1:])
        except ValueError as error:
            raise UsageError(f"{option_name} {text!r}: not a regular expression: {error}") from None
    encoding, colon, encoded_value = text.partition(":")
    if not colon or encoding not in PARSER_BY_ENCODING:
        return os.fsencode(text)
    try:
        return PARSER_BY_ENCODING[encoding](encoded_value)
    except (ValueError, struct.error):
        raise UsageError(f"{option_name} {text!r}: {encoded_value!r} is not {encoding}") from None


# Encodings for values that are not text.
PARSER_BY_ENCODING: dict[str, Callable[[str], bytes]] = {
    "text": os.fsencode,
    "hex": bytes.fromhex,
    "base64": lambda text: base64.b64decode(text, validate=True),
    "int": lambda text: struct.pack(">i", parse_int(text)),
    "long": lambda text: struct.pack(">q", parse_int(text)),
    "double": lambda text: struct.pack(">d", float(text)),
    "uuid": lambda text: uuid.UUID(text).bytes,
}


def _parse_header_criterion(criterion: str) -> tuple[bytes, Pattern | None]:
    header_name, equals, pattern_text = criterion.partition("=")
    return os.fsencode(header_name), parse_pattern("--header", pattern_text) if equals else None
