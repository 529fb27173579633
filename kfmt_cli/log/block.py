"""A block of a log: some bytes, the batches in them as columns, and findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32, CRC32C, crc_of_regions
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.formats.batch import (
    ATTRIBUTES,
    COMPRESSION,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    RECORD_BATCH,
    TIMESTAMP_TYPE,
)
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH

LOG_OVERHEAD = 12  # offset and length field, in front of every batch of any magic
HEADER_SIZE = RECORD_BATCH.dtype.itemsize
LEGACY_HEADERS = tuple(message.before("key") for message in MESSAGES)
HEADERS = (*LEGACY_HEADERS, RECORD_BATCH)  # by magic
NO_TIMESTAMP = -1
NO_TIMESTAMP_TYPE = BATCH["timestamp_type"].words.index("NoTimestampType")

# Where the checksummed bytes begin, by magic.
CHECKED_FROM = (
    *(header.offset_of("magic") for header in LEGACY_HEADERS),
    RECORD_BATCH.offset_of("attributes"),
)
STORED_CRC_AT = tuple(header.offset_of("crc") for header in HEADERS)
POLYNOMIALS = (CRC32, CRC32, CRC32C)

# From the first large array that is freed, glibc learns to keep memory of that size for the next
# one; otherwise it returns each block's pages to the system and has them made again.
with suppress(MemoryError):
    np.empty(31 << 20, np.uint8)


@dataclass(slots=True)
class Block:
    """position: the position in the file of byte 0 of `data`. findings: in file order.
    decompressed: if done ahead, the records' bytes and each batch's start and end in them."""

    name: str
    data: bytes
    position: int
    batches: BatchTable
    findings: list[Finding] = field(default_factory=list)
    decompressed: tuple[bytes, IntArray, IntArray] | None = None


def read_batches(
    data: bytes,
    position: int,
    first_number: int,
    starts: IntArray,
    ends: IntArray,
    checked: bool = True,
) -> BatchTable:
    """The headers of the batches at starts..ends of `data`, with their checksums computed.

    checked: False to trust every checksum.
    """
    batches = BatchTable.zeros(len(starts))
    batches.start = starts
    batches.end = ends
    batches.position = starts + position
    batches.size = ends - starts
    batches.number = np.arange(first_number, first_number + len(starts))
    magics = np.frombuffer(data, np.uint8)[starts + RECORD_BATCH.offset_of("magic")]
    for magic in range(3):
        rows = np.flatnonzero(magics == magic)
        if len(rows):
            _fill(batches, data, rows, magic)
            if not checked:
                batches.crc_computed[rows] = batches.crc[rows]
                continue
            batches.crc_computed[rows] = crc_of_regions(
                POLYNOMIALS[magic], data, starts[rows] + CHECKED_FROM[magic], ends[rows]
            )
    batches.crc_valid = batches.crc == batches.crc_computed
    return batches


def _fill(batches: BatchTable, data: bytes, rows: IntArray, magic: int) -> None:
    """Fill the columns of some batches, which all have this magic."""
    layout, starts = HEADERS[magic], batches.start[rows]
    columns = layout.columns(data, starts, starts + layout.dtype.itemsize, len(rows))
    everything: slice | IntArray = slice(None) if len(rows) == len(batches) else rows

    def put(name: str, values: IntArray | int) -> None:
        batches.data[batches.names[name], everything] = values

    if magic == 2:
        for stored in layout.fields:
            put(stored.name, columns[stored.name])
        attributes = columns.attributes
        for bits in ATTRIBUTES:
            put(bits.name, (attributes >> bits.at) & ((1 << bits.width) - 1))
        put("last_offset", columns.base_offset + columns.last_offset_delta)
        put("last_sequence", sequence(columns.base_sequence, columns.last_offset_delta))
        for name in ("is_v2", "has_timestamp", "has_base_offset"):
            put(name, 1)
        return
    for name in ("magic", "crc", "attributes"):
        put(name, columns[name])
    compression = columns.attributes & COMPRESSION.mask
    put("compression", compression)
    put("batch_length", columns.message_size)
    put("base_offset", columns.offset)
    put("last_offset", columns.offset)
    put("has_base_offset", compression == 0)
    put("timestamp_type", NO_TIMESTAMP_TYPE)
    if magic == 1:
        put("timestamp_type", (columns.attributes >> TIMESTAMP_TYPE.at) & 1)
        put("max_timestamp", columns.timestamp)
        put("has_timestamp", 1)


def max_timestamps(batches: BatchTable) -> IntArray:
    """The max timestamps of batches, `NO_TIMESTAMP` for magic 0, which has none."""
    return np.where(batches.has_timestamp == 1, batches.max_timestamp, NO_TIMESTAMP)


def sequence(base: IntArray, delta: IntArray) -> IntArray:
    """The sequence number `delta` records after `base`; it wraps to 0 after 2^31 - 1. Of negative
    numbers, only -1 stands for none. Source: `DefaultRecordBatch.lastSequence`."""
    last = base + delta
    return np.where(base >= 0, last & MAX_SEQUENCE, np.where(base == NO_SEQUENCE, base, last))


def runs(block: Block) -> Iterator[Block]:
    """Split a block into runs of batches of one kind, magic 2 or older; nearly always one run."""
    is_v2 = block.batches.is_v2
    changes = np.flatnonzero(np.diff(is_v2)) + 1
    if not len(changes):
        yield block
        return
    for first, last in pairwise([0, *changes.tolist(), len(is_v2)]):
        yield part_of(block, first, last)


def split(block: Block, most: int) -> Iterator[Block]:
    """Split a block into parts of about `most` bytes, with at least one batch each."""
    ends = np.cumsum(block.batches.size)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + most, "right")), first + 1)
        yield part_of(block, first, last)
        first = last


def is_legacy(run: Block) -> bool:
    """Whether a run has magic 0 or 1."""
    return len(run.batches) > 0 and not run.batches.is_v2[0]


def _position_of(block: Block, batch: int) -> int:
    """The position in the file of a batch; past the last batch, a value far beyond the file."""
    positions = block.batches.position
    return int(positions[batch]) if batch < len(positions) else 1 << 62


def part_of(block: Block, first: int, last: int) -> Block:
    """Batches first..last-1 as a block, with their findings, up to the next batch."""
    begin = _position_of(block, first) if first else -1
    end = _position_of(block, last)
    mine = [finding for finding in block.findings if begin <= (finding.position or 0) < end]
    batches = block.batches.select(slice(first, last))
    return Block(block.name, block.data, block.position, batches, mine)


def undamaged_data(block: Block) -> Block:
    """The block with only its undamaged batches, without markers and findings."""
    keep = (block.batches.control == 0) & (block.batches.crc_valid == 1)
    batches = block.batches if keep.all() else block.batches.select(keep)
    return Block(block.name, block.data, block.position, batches)


def batch_finding(block: Block, i: int, code: Code, message: str, **more: Any) -> Finding:
    """A finding about batch i of the block; `message` follows "batch N: "."""
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
    """A finding about batch i of the block. words: the text after "batch N"."""
    batches = block.batches
    return Finding(
        file=block.name,
        code=code,
        position=int(batches.position[i]) if position is None else position,
        words=words,
        offset=int(batches.base_offset[i]) if offset is None else offset,
        expected=expected,
        found=found,
        batch=int(batches.number[i]),
    )
