"""Records of a block's batches, of every magic and codec, as one table in offset order.

Rows are decoded in bulk. The slow reader of the same Layout rereads an inconsistent batch and
reports where and why. Records before the fault are kept. Checks that ask each batch only for the
spans of its offsets and timestamps get them without rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.place import DecodeError, Origin, Place
from kfmt_cli.core.native import kernel
from kfmt_cli.core.native.table import Table, TableColumn
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.block import HEADER_SIZE, Block, about_batch, batch_finding
from kfmt_cli.log.decompress import decompressed
from kfmt_cli.rows.log_tables import BATCH_NAMES, READ_NAMES, RECORD_NAMES, RecordTable

OK, FULL = (kernel.STATUSES[name] for name in ("OK", "FULL"))
# Per block, to keep its columns below some hundred megabytes whatever it decompresses to.
MOST_RECORDS = 1 << 21


class SpanTable(Table):
    """From where to where the offsets and timestamps of the records of each batch go."""

    __slots__ = ()

    first_offset = TableColumn()
    last_offset = TableColumn()
    least_offset = TableColumn()
    largest_offset = TableColumn()
    rises = TableColumn()
    """Whether each offset exceeds the one before it."""
    largest_timestamp = TableColumn()
    has_timestamps = TableColumn()
    """Whether each record has one."""


@dataclass(slots=True)
class Records:
    """data: the buffer of the key, value and header columns. rows: at least the columns
    `READ_NAMES`, in order. ends: `ends[i]` is the exclusive end of batch i's rows. headers: (4, n):
    start and length of the key, start and length of the value."""

    data: bytes
    rows: RecordTable
    headers: IntArray
    ends: IntArray
    findings: list[Finding] = field(default_factory=list)
    _spans: SpanTable | None = field(default=None, init=False)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def filled(self) -> IntArray:
        """The batches with records."""
        return np.flatnonzero(self.counts)

    @property
    def spans(self) -> SpanTable:
        """A row for each of `filled`."""
        if self._spans is None:
            self._spans = spans = SpanTable.zeros(len(self.filled))
            if len(spans):
                rows, lasts = self.rows, self.ends[self.filled] - 1
                firsts = lasts + 1 - self.counts[self.filled]
                spans.first_offset, spans.last_offset = rows.offset[firsts], rows.offset[lasts]
                spans.least_offset = np.minimum.reduceat(rows.offset, firsts)
                spans.largest_offset = np.maximum.reduceat(rows.offset, firsts)
                # Offsets that overflow wrap around; their difference is that of their deltas.
                rises = np.diff(rows.offset, append=0) > 0
                rises[lasts] = True
                spans.rises = np.logical_and.reduceat(rises, firsts)
                spans.largest_timestamp = np.maximum.reduceat(rows.timestamp, firsts)
                spans.has_timestamps = np.minimum.reduceat(rows.has_timestamp, firsts)
        return self._spans

    @property
    def counts(self) -> IntArray:
        """How many rows each batch has."""
        return np.diff(self.ends, prepend=0)

    @property
    def owner(self) -> IntArray:
        """The batch of each row."""
        return np.repeat(np.arange(len(self.ends)), self.counts)

    def add_columns(self) -> None:
        """Add the columns that only outputs need, with zeros."""
        rows = self.rows
        if len(rows.names) == len(READ_NAMES):
            rows.data[len(READ_NAMES) :] = 0
            rows.names = RECORD_NAMES  # of all who have the table


class SpannedRecords(Records):
    """Records whose offsets rise in each batch; rows are decoded when somebody asks for them."""

    def __init__(
        self, block: Block, limit: Limit, spans: SpanTable, ends: IntArray, findings: list[Finding]
    ) -> None:
        self._read = partial(read_v2, block, limit)
        self.ends, self.findings, self._spans = ends, findings, spans

    def __getattr__(self, name: str) -> object:  # of what is not there yet
        if name not in ("data", "rows", "headers"):
            raise AttributeError(name)
        whole = self._read()
        self.data, self.rows, self.headers = whole.data, whole.rows, whole.headers
        return getattr(whole, name)


def read_spans(block: Block, limit: Limit) -> Records:
    """The records of batches of magic 2, with their spans, for checks."""
    batches = block.batches
    if batches.control.any():  # checks read their rows
        return read_v2(block, limit)
    findings: list[Finding] = []
    data, starts, ends = block.decompressed or decompressed(block, limit, findings)
    names = ("offset_delta", "timestamp_delta")
    (offsets, times), regions = RECORD.spans(data, starts, ends, names, MOST_RECORDS)
    filled = np.flatnonzero(np.diff(regions[2], prepend=0))
    bases, base_times = batches.base_offset[filled], batches.base_timestamp[filled]
    least, largest, rises = offsets[:, filled]
    if not rises.all() or _may_overflow(bases, base_times, times[:2]):
        return read_v2(block, limit)
    spans = SpanTable.zeros(len(filled))
    spans.rises = rises
    spans.first_offset = spans.least_offset = bases + least
    spans.last_offset = spans.largest_offset = bases + largest
    spans.largest_timestamp = base_times + times[1, filled]
    spans.has_timestamps = 1
    row_ends, findings = _ends(block, data, regions, findings)
    return SpannedRecords(block, limit, spans, row_ends, findings)


def _may_overflow(*numbers: IntArray) -> bool:
    """Whether the sum of two of them may wrap around, as it does in a broker."""
    return any(bool((abs(of >> 1) >= 1 << 61).any()) for of in numbers)


def read_v2(block: Block, limit: Limit) -> Records:
    """The records of batches of magic 2."""
    batches = block.batches
    findings: list[Finding] = []
    data, starts, ends = block.decompressed or decompressed(block, limit, findings)
    columns = RECORD.columns(
        data,
        starts,
        ends,
        int(batches.records_count.clip(0).sum()),
        spare=len(RECORD_NAMES) - len(RECORD.names),
        most_rows=MOST_RECORDS,
    )
    row_ends, findings = _ends(block, data, columns.regions, findings)
    # A record's position: its batch's position, plus the header, plus its place in the records.
    batches.records_position = batches.position + HEADER_SIZE - starts
    append_time = batches.timestamp_type == 1
    batches.record_timestamp = np.where(append_time, batches.max_timestamp, batches.base_timestamp)
    batches.has_delta = ~append_time
    kernel.expand(batches.data, row_ends, _V2_OFFSETS, columns.rows)
    rows = RecordTable(READ_NAMES, columns.rows)
    return Records(data, rows, columns.children, row_ends, findings)


def _ends(
    block: Block, data: bytes, regions: IntArray, findings: list[Finding]
) -> tuple[IntArray, list[Finding]]:
    """The end of each batch's rows, and the findings with those about missing or excess records."""
    ends = regions[2].copy()
    counts = block.batches.records_count
    if (regions[3] != OK).any() or (np.diff(ends, prepend=0) != counts).any():
        findings = [*findings, *_explain(block, data, regions)]
    return ends, findings


def fill(block: Block, records: Records, program: IntArray) -> None:
    """Fill columns that only outputs need from the records' batches; see `kernel.expand`."""
    records.add_columns()
    kernel.expand(block.batches.data, records.ends, program, records.rows.data)


def expansion(*instructions: tuple[str, str, str | None, str | None]) -> IntArray:
    """A program for `kernel.expand`: (column, batch column, record column to add, batch column that
    must be set)."""
    return np.array(
        [
            (
                RECORD_NAMES[target],
                BATCH_NAMES[of_batch],
                RECORD_NAMES[addend] if addend else -1,
                BATCH_NAMES[condition] if condition else -1,
            )
            for target, of_batch, addend, condition in instructions
        ],
        np.int64,
    )


_V2_OFFSETS = expansion(
    ("offset", "base_offset", "offset_delta", None),
    ("timestamp", "record_timestamp", "timestamp_delta", "has_delta"),
    ("has_timestamp", "has_timestamp", None, None),
)


def _explain(block: Block, data: bytes, regions: IntArray) -> Iterator[Finding]:
    """Findings for batches with missing or excess records."""
    batches = block.batches
    row_ends = regions[2].tolist()
    for i, (start, end) in enumerate(zip(*regions[:2].tolist(), strict=True)):
        declared = int(batches.records_count[i])
        n = row_ends[i] - (row_ends[i - 1] if i else 0)
        compressed = int(batches.compression[i])
        if batches.unreadable[i]:
            continue
        if regions[3, i] == FULL:
            message = f"records or headers beyond {MOST_RECORDS} were not checked"
            yield batch_finding(block, i, codes.RECORDS_LIMIT, message, found=declared)
        elif regions[3, i] != OK and not declared:  # consumers do not look at its records
            size = end - start
            message = f"declares no records but has {size} bytes of them"
            code = codes.RECORDS_COUNT_MISMATCH
            yield batch_finding(block, i, code, message, expected=0, found=None)
        elif regions[3, i] != OK:
            at = int(regions[4, i]) - start
            origin = Origin(block.name, int(batches.position[i]), decompressed=bool(compressed))
            if not compressed:
                # Not the position in `data`: the batch may be fixed, or among compressed ones.
                origin = Origin(block.name, int(batches.position[i]) + HEADER_SIZE)
            more = f" ({end - start - at} bytes after the last record)" if n >= declared else ""
            yield unread(block, i, data[start:end], Place(origin, at), f"record {n}", more)
        elif n != declared and 0 <= declared <= int(batches.last_offset_delta[i]) + 1:
            yield batch_finding(
                block,
                i,
                codes.RECORDS_COUNT_MISMATCH,
                f"declares {declared} records but contains {n}",
                expected=declared,
                found=n,
            )


def unread(block: Block, i: int, data: bytes, place: Place, name: str, more: str = "") -> Finding:
    """The finding for a record or message of batch i that could not be read, which begins at a
    place and is the end of `data`. more: words after what is wrong."""
    is_v2 = block.batches.is_v2[i]
    layout = RECORD if is_v2 else MESSAGES[data[place.at + RECORD_BATCH.offset_of("magic")]]
    try:
        layout.read(data, place.at, len(data), place.origin, (name,))
    except DecodeError as error:
        path = "".join(f" › {part}" for part in error.place.path)
        words = f"{path}: {error.reason}, at {place.origin.byte(error.place.at)}{more}"
        code = codes.RECORD_MALFORMED if is_v2 else codes.MESSAGE_MALFORMED
        return about_batch(block, i, code, words, position=error.place.position)
    raise AssertionError("internal error: the kernel and the slow reader disagree")
