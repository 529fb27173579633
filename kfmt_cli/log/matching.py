"""Which records hold what is looked for: by key, value, headers and producer."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.log.block import Block
from kfmt_cli.log.records import Records

Pattern = bytes | re.Pattern[bytes]


@dataclass(frozen=True, slots=True)
class Match:
    """What a record must have; a pattern is the bytes themselves, or a regular expression that is
    found in them."""

    key: Pattern | None = None
    value: Pattern | None = None
    headers: tuple[tuple[bytes, Pattern | None], ...] = ()
    """Name and pattern, None for any value."""
    producer_id: int | None = None
    """The producer of its batch."""

    def rows(self, run: Block, records: Records, chosen: IntArray) -> IntArray:
        """Those of some rows that match."""
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


def _matching(records: Records, chosen: IntArray, name: str, pattern: Pattern) -> IntArray:
    starts, sizes = records.rows[name], records.rows[f"{name}_size"]
    data = records.data
    if isinstance(pattern, bytes):
        near = chosen[sizes[chosen] == len(pattern)]
        places = zip(near.tolist(), starts[near].tolist(), strict=True)
        size = len(pattern)
        found = [row for row, start in places if data[start : start + size] == pattern]
        return np.array(found, np.int64)
    near = chosen[sizes[chosen] >= 0]
    spans = zip(near.tolist(), starts[near].tolist(), sizes[near].tolist(), strict=True)
    search = pattern.search
    return np.array([row for row, at, n in spans if search(data[at : at + n])], np.int64)


def headers_of(records: Records, row: int) -> list[tuple[bytes, bytes | None]]:
    """The headers of a record; those of a message of magic 0 or 1 are none."""
    rows, headers, data = records.rows, records.headers, records.data
    count = int(rows.headers[row]) if "headers" in rows.names else 0
    first = int(rows.headers_first[row]) if count > 0 else 0
    found = []
    for i in range(first, first + max(count, 0)):
        key, key_size, value, size = (int(headers[column, i]) for column in range(4))
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
