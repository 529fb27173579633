"""Records of a block's batches, of every magic and codec, as one table in offset order.

Rows are decoded in bulk. The slow reader of the same Layout rereads an inconsistent batch and
reports where and why. Records before the fault are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.place import DecodeError, Origin
from kfmt_cli.core.native import kernel
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.log.block import HEADER_SIZE, Block, about_batch, batch_finding
from kfmt_cli.log.decompress import decompressed
from kfmt_cli.rows.log_tables import BATCH_NAMES, READ_NAMES, RECORD_NAMES, RecordTable

OK, FULL = (kernel.STATUSES[name] for name in ("OK", "FULL"))
# Per block, to keep its columns below some hundred megabytes whatever it decompresses to.
MOST_RECORDS = 1 << 21


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


def read_v2(block: Block, limit: Limit) -> Records:
    """The records of batches of magic 2."""
    batches = block.batches
    findings: list[Finding] = []
    data, starts, ends = block.decompressed or decompressed(block, limit, findings)
    counts = batches.records_count
    columns = RECORD.columns(
        data,
        starts,
        ends,
        int(counts.clip(0).sum()),
        spare=len(RECORD_NAMES) - len(RECORD.names),
        most_rows=MOST_RECORDS,
    )
    row_ends = columns.regions[2].copy()
    if (columns.regions[3] != OK).any() or (np.diff(row_ends, prepend=0) != counts).any():
        findings += _explain(block, data, columns.regions)
    # A record's position: its batch's position, plus the header, plus its place in the records.
    batches.records_position = batches.position + HEADER_SIZE - starts
    append_time = batches.timestamp_type == 1
    batches.record_timestamp = np.where(append_time, batches.max_timestamp, batches.base_timestamp)
    batches.has_delta = ~append_time
    kernel.expand(batches.data, row_ends, _V2_OFFSETS, columns.rows)
    rows = RecordTable(READ_NAMES, columns.rows)
    return Records(data, rows, columns.children, row_ends, findings)


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
            yield _malformed(block, i, data[start:end], at, origin, n)
        elif n != declared and 0 <= declared <= int(batches.last_offset_delta[i]) + 1:
            yield batch_finding(
                block,
                i,
                codes.RECORDS_COUNT_MISMATCH,
                f"declares {declared} records but contains {n}",
                expected=declared,
                found=n,
            )


def _malformed(
    block: Block, i: int, region: bytes, at: int, origin: Origin, record: int
) -> Finding:
    try:
        RECORD.read(region, at, len(region), origin, (f"record {record}",))
    except DecodeError as error:
        declared = int(block.batches.records_count[i])
        more = f" ({len(region) - at} bytes after the last record)" if record >= declared else ""
        path = "".join(f" › {part}" for part in error.place.path)
        words = f"{path}: {error.reason}, at {origin.byte(error.place.at)}{more}"
        code = codes.RECORD_MALFORMED
        return about_batch(block, i, code, words, position=error.place.position)
    raise AssertionError("internal error: the kernel and the slow reader disagree")
