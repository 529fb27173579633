"""Finding records by key, value, headers and producer."""

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

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.errors import UsageError
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.expression import Expression, expression
from kfmt_cli.rows.log_tables import BatchTable

Pattern = bytes | Expression
MOST_AT_ONCE = 32  # bytes of a pattern compared in columns


@dataclass(frozen=True, slots=True)
class Match:
    """Criteria for a record. A pattern is the exact bytes, or a regular expression to find in
    them."""

    key: Pattern | None = None
    value: Pattern | None = None
    headers: tuple[tuple[bytes, Pattern | None], ...] = ()
    """Name and pattern, None for any value."""
    producer_id: int | None = None
    """The producer of its batch."""

    def __bool__(self) -> bool:
        """Whether there are any criteria."""
        return self != Match()

    @property
    def of_records(self) -> bool:
        """Whether the records must be read, not only the batch headers."""
        return self.key is not None or self.value is not None or bool(self.headers)

    def batches(self, batches: BatchTable) -> BoolArray:
        """Which batches can contain a match, by their headers."""
        if self.producer_id is None:
            return np.ones(len(batches), np.bool_)
        of_producer: BoolArray = (batches.producer_id == self.producer_id) & (batches.is_v2 == 1)
        return of_producer

    def near(self, block: Block) -> Block:
        """The block without the batches whose bytes lack the longest exact pattern.

        Unchanged without an exact pattern, or if the pattern is too frequent, the records are not
        decompressed yet, or a batch has magic 0 or 1.
        """
        wanted = [self.key, self.value, *(value for _, value in self.headers)]
        exact = [pattern for pattern in wanted if isinstance(pattern, bytes) and pattern]
        batches = block.batches
        is_plain = block.decompressed is not None or not batches.compression.any()
        if not exact or not is_plain or not batches.is_v2.all():
            return block
        plain = (block.data, batches.start, batches.end)
        data, starts, ends = block.decompressed or plain
        places = _places(data, max(exact, key=len), len(batches))
        if places is None:
            return block
        i = np.searchsorted(starts, places, side="right") - 1
        keep = np.zeros(len(batches), np.bool_)
        keep[i[(i >= 0) & (places < ends[i])]] = True
        if keep.all():
            return block
        held = None if block.decompressed is None else (data, starts[keep], ends[keep])
        return replace(block, batches=batches.select(keep), decompressed=held)

    def rows(self, run: Block, records: Records, chosen: IntArray) -> IntArray:
        """The chosen rows that match."""
        if self.producer_id is not None:
            owner = np.searchsorted(records.ends, chosen, side="right")
            chosen = chosen[run.batches.producer_id[owner] == self.producer_id]
        for name, pattern in (("key", self.key), ("value", self.value)):
            if pattern is not None:
                chosen = _matching(records, chosen, name, pattern)
        for header, pattern in self.headers:
            found = [row for row in chosen.tolist() if _has(records, row, header, pattern)]
            chosen = np.array(found, np.int64)
        return chosen


def _places(data: bytes, pattern: bytes, most: int) -> IntArray | None:
    """Where a pattern occurs; None if it is too frequent to narrow the search down."""
    found = []
    at = data.find(pattern)
    while at >= 0:
        found.append(at)
        if len(found) > 4 * most:
            return None
        at = data.find(pattern, at + 1)
    return np.array(found, np.int64)


def _matching(records: Records, chosen: IntArray, name: str, pattern: Pattern) -> IntArray:
    data, starts, sizes = records.data, records.rows[name], records.rows[f"{name}_size"]
    matches: Callable[[bytes], object]
    if isinstance(pattern, bytes):
        near = _beginning(data, chosen[sizes[chosen] == len(pattern)], starts, pattern)
        if len(pattern) <= MOST_AT_ONCE:
            return near
        matches = partial(operator.eq, pattern)
    else:
        first = pattern.beginning
        near = _beginning(data, chosen[sizes[chosen] >= len(first)], starts, first)
        matches = pattern.searching(int(sizes[near].max(initial=0)))
    spans = zip(near.tolist(), starts[near].tolist(), sizes[near].tolist(), strict=True)
    return np.array([row for row, at, n in spans if matches(data[at : at + n])], np.int64)


def _beginning(data: bytes, rows: IntArray, starts: IntArray, first: bytes) -> IntArray:
    """The rows whose content begins with the first `MOST_AT_ONCE` of these bytes; that content
    is not shorter."""
    view: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = np.frombuffer(data, np.uint8)
    at = starts[rows]
    for i, byte in enumerate(first[:MOST_AT_ONCE]):
        same = view[at + i] == byte
        rows, at = rows[same], at[same]
    return rows


def headers_of(records: Records, row: int) -> list[tuple[bytes, bytes | None]]:
    """The headers of a record; none for a message of magic 0 or 1."""
    rows, data = records.rows, records.data
    if "headers" not in rows.names or rows.headers[row] <= 0:
        return []
    first = rows.headers_first[row]
    places = records.headers[:4, first : first + rows.headers[row]]
    found = []
    for key, key_size, value, size in places.T.tolist():
        content = None if size < 0 else data[value : value + size]
        found.append((data[key : key + key_size], content))
    return found


def _has(records: Records, row: int, name: bytes, pattern: Pattern | None) -> bool:
    for header, value in headers_of(records, row):
        if header != name:
            continue
        if pattern is None:
            return True
        if value is None:
            continue
        if value == pattern if isinstance(pattern, bytes) else pattern.search(value):
            return True
    return False


def match_of(
    key: str | None, value: str | None, headers: Iterable[str], producer_id: int | None
) -> Match:
    """Parse criteria for records from option values; raises UsageError."""
    return Match(
        None if key is None else pattern_of("--key", key),
        None if value is None else pattern_of("--value", value),
        tuple(map(_header, headers)),
        producer_id,
    )


def pattern_of(option: str, text: str) -> Pattern:
    """Parse a pattern: text, a regular expression after ~, or a value after the name of its
    encoding and a colon. Raises UsageError."""
    if text.startswith("~"):
        try:
            return expression(text[1:])
        except ValueError as error:
            raise UsageError(f"{option} {text!r}: not a regular expression: {error}") from None
    encoding, colon, value = text.partition(":")
    if not colon or encoding not in ENCODINGS:
        return os.fsencode(text)
    try:
        return ENCODINGS[encoding](value)
    except (ValueError, struct.error):
        raise UsageError(f"{option} {text!r}: {value!r} is not {encoding}") from None


# Encodings for values that are not text.
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "text": os.fsencode,
    "hex": bytes.fromhex,
    "base64": lambda text: base64.b64decode(text, validate=True),
    "int": lambda text: struct.pack(">i", int(text)),
    "long": lambda text: struct.pack(">q", int(text)),
    "double": lambda text: struct.pack(">d", float(text)),
    "uuid": lambda text: uuid.UUID(text).bytes,
}


def _header(text: str) -> tuple[bytes, Pattern | None]:
    name, equals, value = text.partition("=")
    return os.fsencode(name), pattern_of("--header", value) if equals else None
