"""Records of a block's batches, of every magic and codec, as one table in offset order.

Rows are decoded in bulk; a batch that does not add up is read again by the slow reader of the same
Layout, which says where and why. Records before the fault are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from kfmt_cli.core import kernel
from kfmt_cli.core.compression import CompressionError, Limit, TooLargeError, decompress
from kfmt_cli.core.finding import Code, Finding
from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.place import DecodeError, Origin
from kfmt_cli.core.table import Table
from kfmt_cli.files import codes
from kfmt_cli.files.block import BATCH_NAMES, HEADER_SIZE, Block
from kfmt_cli.formats.batch import CODECS, RECORD
from kfmt_cli.rows.record import RECORD as ROWS

# What is shown beside the stored fields; `files/shown.py` fills what only outputs need.
DERIVED_COLUMNS = (*(it for it in ROWS.sources if it not in RECORD.names), "file_number")
# The stored fields of magic 2, which messages of magic 0 and 1 fill as far as they have them.
RECORD_COLUMNS = (*RECORD.names, *DERIVED_COLUMNS)
RECORD_NAMES = {name: column for column, name in enumerate(RECORD_COLUMNS)}
assert all(RECORD_NAMES[name] == column for name, column in RECORD.names.items())
OK, FULL = kernel.STATUSES["OK"], kernel.STATUSES["FULL"]
# Of a block, so that its columns stay below some hundred megabytes whatever was compressed.
MOST_RECORDS = 1 << 21
# A block is cut where its records decompress to more, so that none takes much memory.
PART = 8 << 20


@dataclass(slots=True)
class Records:
    """data: what the key, value and header columns point into. rows: `RECORD_COLUMNS`, in order.
    ends: rows up to and with each batch. headers: (4, n): start and length of key, of value."""

    data: bytes
    rows: Table
    headers: IntArray
    ends: IntArray
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Region:
    """Where a batch's records are: a part of the block, or what was decompressed."""

    batch: int
    start: int
    end: int
    compressed: bool


def runs(block: Block) -> Iterator[Block]:
    """The block in runs of batches of the same kind, magic 2 or older; nearly always one."""
    is_v2 = block.batches["is_v2"]
    changes = np.flatnonzero(np.diff(is_v2)) + 1
    if not len(changes):
        yield block
        return
    for first, last in pairwise([0, *changes.tolist(), len(is_v2)]):
        yield _part(block, first, last)


def split(block: Block, most: int) -> Iterator[Block]:
    """The block in parts of about `most` bytes of batches, one batch at least."""
    ends = np.cumsum(block.batches["size"])
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + most, "right")), first + 1)
        yield _part(block, first, last)
        first = last


def is_legacy(run: Block) -> bool:
    """Whether a run is one of magic 0 and 1."""
    return len(run.batches) > 0 and not run.batches["is_v2"][0]


def _position_of(block: Block, batch: int) -> int:
    """The file's byte where a batch of the block begins; far beyond it behind the last."""
    positions = block.batches["position"]
    return int(positions[batch]) if batch < len(positions) else 1 << 62


def read_v2(block: Block, limit: Limit) -> Records:
    """The records of batches of magic 2."""
    batches = block.batches
    findings: list[Finding] = []
    data, starts, ends = block.inflated or _inflate(block, limit, findings)
    counts = batches["records_count"]
    columns = RECORD.columns(
        data,
        starts,
        ends,
        int(counts.clip(0).sum()),
        spare=len(DERIVED_COLUMNS),
        most_rows=MOST_RECORDS,
    )
    row_ends = columns.regions[2].copy()
    if (columns.regions[3] != OK).any() or (np.diff(row_ends, prepend=0) != counts).any():
        findings += _explain(block, data, columns.regions)
    # A record's position is its batch's, the header, and how far into the records it is.
    batches["records_position"] = batches["position"] + HEADER_SIZE - starts
    append_time = batches["timestamp_type"] == 1
    batches["record_timestamp"] = np.where(
        append_time, batches["max_timestamp"], batches["base_timestamp"]
    )
    batches["has_delta"] = ~append_time
    records = Records(data, Table(RECORD_NAMES, columns.rows), columns.children, row_ends, findings)
    fill(block, records, _V2_OFFSETS)
    return records


def fill(block: Block, records: Records, program: IntArray) -> None:
    """Fill columns of the records from their batches, see `kernel.expand`."""
    kernel.expand(block.batches.data, records.ends, program, records.rows.data)


def expansion(*instructions: tuple[str, str, str | None, str | None]) -> IntArray:
    """A program for `fill`: (column, batch's column, record's column to add, only if batch's)."""
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


def inflate_ahead(block: Block, limit: Limit) -> Iterator[Block]:
    """Decompress the records of a block of magic 2 now, for a later `read_records`.

    Decompressors let go of the interpreter for each batch, which slows several threads down; this
    is for the thread that reads, so that the others need not. The block comes back in parts of
    `PART` decompressed bytes or little more.
    """
    batches = block.batches
    if not batches["compression"].any() or not batches["is_v2"].all():
        yield block
        return
    first = size = 0
    pieces: list[bytes] = []
    for i in range(len(batches)):
        piece = _records_of(block, i, limit, block.findings)
        pieces.append(piece)
        size += len(piece)
        if size >= PART or i + 1 == len(batches):
            part = _part(block, first, i + 1)
            part.inflated = _joined(pieces)
            yield part
            first, size, pieces = i + 1, 0, []


def is_heavy(block: Block) -> bool:
    """Whether a block takes so much memory that it must be alone; a large batch makes it so."""
    held = len(block.data) + (len(block.inflated[0]) if block.inflated is not None else 0)
    return held > 2 * PART


def _part(block: Block, first: int, last: int) -> Block:
    """Batches first..last-1 as a block, with the findings that stand before the next batch."""
    begin = _position_of(block, first) if first else -1
    end = _position_of(block, last)
    mine = [it for it in block.findings if begin <= (it.position or 0) < end]
    batches = block.batches.select(slice(first, last))
    return Block(block.name, block.data, block.position, batches, mine)


def _records_of(block: Block, i: int, limit: Limit, findings: list[Finding]) -> bytes:
    """The bytes of a batch's records, decompressed; none, and a finding, where that fails."""
    batches = block.batches
    piece = block.data[int(batches["start"][i]) + HEADER_SIZE : int(batches["end"][i])]
    codec = int(batches["compression"][i])
    if not codec or not piece:
        return piece
    inflated = inflate(block, i, codec, piece, limit, findings)
    batches.data[BATCH_NAMES["unreadable"], i] = inflated is None
    return inflated or b""


def _inflate(
    block: Block, limit: Limit, findings: list[Finding]
) -> tuple[bytes, IntArray, IntArray]:
    """The bytes of the records and each batch's part of them, decompressed where need be."""
    batches = block.batches
    if not batches["compression"].any():
        return block.data, batches["start"] + HEADER_SIZE, batches["end"].copy()
    pieces = [_records_of(block, i, limit, findings) for i in range(len(batches))]
    return _joined(pieces)


def _joined(pieces: list[bytes]) -> tuple[bytes, IntArray, IntArray]:
    """The pieces one behind the other, and where each starts and ends."""
    ends = np.cumsum([len(piece) for piece in pieces])
    return b"".join(pieces), np.concatenate([[0], ends[:-1]]), ends


def inflate(
    block: Block, i: int, codec: int, data: bytes, limit: Limit, findings: list[Finding]
) -> bytes | None:
    """What a batch's bytes decompress to, or None and a finding."""
    batches = block.batches
    if codec >= len(CODECS) - (batches["is_v2"][i] == 0):
        return None  # said when the header was read
    try:
        magic = int(batches["magic"][i])
        return decompress(CODECS[codec], data, limit.of(len(data)), magic)
    except TooLargeError as error:
        findings.append(batch_finding(block, i, codes.DECOMPRESSION_LIMIT, str(error)))
    except CompressionError as error:
        findings.append(batch_finding(block, i, codes.DECOMPRESSION_FAILED, str(error)))
    return None


def batch_finding(block: Block, i: int, code: Code, message: str, **more: Any) -> Finding:
    """A finding about batch i of the block, with a sentence behind "batch N: "."""
    return about_batch(block, i, code, f": {message}", **more)


def about_batch(
    block: Block,
    i: int,
    code: Code,
    words: str,
    *,
    expected: str | int | None = None,
    found: str | int | None = None,
    position: int | None = None,
    offset: int | None = None,
) -> Finding:
    """A finding about batch i of the block. words: what stands behind "batch N"."""
    batches = block.batches
    return Finding(
        file=block.name,
        code=code,
        position=int(batches["position"][i]) if position is None else position,
        words=words,
        offset=int(batches["base_offset"][i]) if offset is None else offset,
        expected=expected,
        found=found,
        batch=int(batches["number"][i]),
    )


def _explain(block: Block, data: bytes, regions: IntArray) -> Iterator[Finding]:
    """Why records of some batches are missing or too many."""
    batches = block.batches
    row_ends = regions[2].tolist()
    for i, (start, end) in enumerate(zip(*regions[:2].tolist(), strict=True)):
        declared = int(batches["records_count"][i])
        n = row_ends[i] - (row_ends[i - 1] if i else 0)
        compressed = int(batches["compression"][i])
        if batches["unreadable"][i]:
            continue
        if regions[3, i] == FULL:
            message = f"records or headers beyond {MOST_RECORDS} are not looked at"
            yield batch_finding(block, i, codes.RECORDS_LIMIT, message, found=declared)
        elif regions[3, i] != OK:
            at = int(regions[4, i]) - start
            origin = Origin(block.name, int(batches["position"][i]), decompressed=bool(compressed))
            if not compressed:
                # Not where the bytes are in `data`: a mended batch, or one among compressed ones.
                origin = Origin(block.name, int(batches["position"][i]) + HEADER_SIZE)
            yield _malformed(block, i, data[start:end], at, origin, n)
        elif n != declared and 0 <= declared <= int(batches["last_offset_delta"][i]) + 1:
            yield batch_finding(
                block,
                i,
                codes.RECORDS_COUNT_MISMATCH,
                f"declares {declared} records, holds {n}",
                expected=declared,
                found=n,
            )


def _malformed(
    block: Block, i: int, region: bytes, at: int, origin: Origin, record: int
) -> Finding:
    try:
        RECORD.read(region, at, len(region), origin, (f"record {record}",))
    except DecodeError as error:
        declared = int(block.batches["records_count"][i])
        more = f" ({len(region) - at} bytes after the last record)" if record >= declared else ""
        path = "".join(f" › {it}" for it in error.place.path)
        words = f"{path}: {error.reason}, at {origin.byte(error.place.at)}{more}"
        code = codes.RECORD_MALFORMED
        return about_batch(block, i, code, words, position=error.place.position)
    raise AssertionError("the kernel and the slow reader disagree")
