"""A block of a log: some bytes, the batches in them as columns, and findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, compute_region_crcs
from kfmt_cli.core.codecs.checksum_mistakes import ChecksummedBytes
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.formats.batch import (
    ATTRIBUTES,
    COMPRESSION,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    RECORD_BATCH,
    TIMESTAMP_TYPE,
)
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH_ROW

LOG_OVERHEAD_BYTES = 12  # offset and length field, in front of every batch of any magic
BATCH_HEADER_BYTES = RECORD_BATCH.dtype.itemsize
LEGACY_HEADER_LAYOUTS = tuple(message.layout_before_field("key") for message in MESSAGE_LAYOUTS)
HEADER_LAYOUT_BY_MAGIC = (*LEGACY_HEADER_LAYOUTS, RECORD_BATCH)  # by magic
NO_TIMESTAMP = -1
NO_TIMESTAMP_TYPE = BATCH_ROW["timestamp_type"].choices.index("NoTimestampType")

# Where the checksummed bytes begin, by magic.
CHECKSUMMED_START_BY_MAGIC = (
    *(header.field_start("magic") for header in LEGACY_HEADER_LAYOUTS),
    RECORD_BATCH.field_start("attributes"),
)
CRC_POSITION_BY_MAGIC = tuple(header.field_start("crc") for header in HEADER_LAYOUT_BY_MAGIC)
POLYNOMIAL_BY_MAGIC = (CRC32_POLYNOMIAL, CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL)

# After the first large array is freed, glibc keeps memory of that size for the next one. Otherwise
# it would return each block's pages to the system and request them again.
with suppress(MemoryError):
    np.empty(31 << 20, np.uint8)


@dataclass(slots=True)
class Block:
    """A range of a log: bytes, the batches in them, and findings.

    data_position: position in the file of byte 0 of `data`. findings: in file order. decompressed:
    if done ahead, the decompressed records and each batch's start and end in them.
    """

    file_name: str
    data: bytes
    data_position: int
    batches: BatchTable
    findings: list[Finding] = field(default_factory=list)
    decompressed: tuple[bytes, IntArray, IntArray] | None = None


def read_batches(
    data: bytes,
    data_position: int,
    first_batch_number: int,
    batch_starts: IntArray,
    batch_ends: IntArray,
    check_crcs: bool = True,
) -> BatchTable:
    """The headers of the batches at starts..ends of `data`, with their checksums computed.

    check_crcs: False to trust every checksum.
    """
    batches = BatchTable.zeros(len(batch_starts))
    batches.start = batch_starts
    batches.end = batch_ends
    batches.position = batch_starts + data_position
    batches.size = batch_ends - batch_starts
    batches.number = np.arange(first_batch_number, first_batch_number + len(batch_starts))
    magics = np.frombuffer(data, np.uint8)[batch_starts + RECORD_BATCH.field_start("magic")]
    for magic in range(3):
        rows_of_magic = np.flatnonzero(magics == magic)
        if len(rows_of_magic):
            _fill_header_columns(batches, data, rows_of_magic, magic)
            if not check_crcs:
                batches.crc_computed[rows_of_magic] = batches.crc[rows_of_magic]
                continue
            batches.crc_computed[rows_of_magic] = compute_region_crcs(
                POLYNOMIAL_BY_MAGIC[magic],
                data,
                batch_starts[rows_of_magic] + CHECKSUMMED_START_BY_MAGIC[magic],
                batch_ends[rows_of_magic],
            )
    batches.crc_valid = batches.crc == batches.crc_computed
    return batches


def _fill_header_columns(
    batches: BatchTable, data: bytes, filled_rows: IntArray, magic: int
) -> None:
    """Fill the columns of some batches, which all have this magic."""
    layout, header_starts = HEADER_LAYOUT_BY_MAGIC[magic], batches.start[filled_rows]
    header_columns = layout.decode_columns(
        data, header_starts, header_starts + layout.dtype.itemsize, len(filled_rows)
    )
    row_selector: slice | IntArray = (
        slice(None) if len(filled_rows) == len(batches) else filled_rows
    )

    def set_column(name: str, values: IntArray | int) -> None:
        batches.data[batches.index_by_name[name], row_selector] = values

    if magic == 2:
        for layout_field in layout.fields:
            set_column(layout_field.name, header_columns[layout_field.name])
        attributes = header_columns.attributes
        for bit_field in ATTRIBUTES:
            set_column(
                bit_field.name, (attributes >> bit_field.shift) & ((1 << bit_field.width) - 1)
            )
        set_column("last_offset", header_columns.base_offset + header_columns.last_offset_delta)
        set_column(
            "last_sequence",
            increment_sequence(header_columns.base_sequence, header_columns.last_offset_delta),
        )
        for column in ("is_v2", "has_timestamp", "has_base_offset"):
            set_column(column, 1)
        return
    for column in ("magic", "crc", "attributes"):
        set_column(column, header_columns[column])
    codecs = header_columns.attributes & COMPRESSION.mask
    set_column("compression", codecs)
    set_column("batch_length", header_columns.message_size)
    set_column("base_offset", header_columns.offset)
    set_column("last_offset", header_columns.offset)
    set_column("has_base_offset", codecs == 0)
    set_column("timestamp_type", NO_TIMESTAMP_TYPE)
    if magic == 1:
        set_column("timestamp_type", (header_columns.attributes >> TIMESTAMP_TYPE.shift) & 1)
        set_column("max_timestamp", header_columns.timestamp)
        set_column("has_timestamp", 1)


def checksummed_bytes(
    data: bytes, position: int, magic: int, uncompressed: bytes | None = None
) -> ChecksummedBytes:
    """The checksummed bytes of a batch. data: the batch, which is at `position` of the file.
    uncompressed: the batch with its records decompressed; None if unknown."""
    return ChecksummedBytes(
        *(data, position, CHECKSUMMED_START_BY_MAGIC[magic]),
        start_name="attributes" if magic == 2 else "magic",
        crc_start=CRC_POSITION_BY_MAGIC[magic],
        polynomial=POLYNOMIAL_BY_MAGIC[magic],
        format_name=f"magic {magic}",
        uncompressed=uncompressed,
    )


def max_timestamps(batches: BatchTable) -> IntArray:
    """The max timestamps of batches, `NO_TIMESTAMP` for magic 0, which has none."""
    return np.where(batches.has_timestamp == 1, batches.max_timestamp, NO_TIMESTAMP)


def increment_sequence(base_sequence: IntArray, offset_delta: IntArray) -> IntArray:
    """The sequence number `offset_delta` records after `base_sequence`; it wraps to 0 after 2^31 -
    1. Of negative numbers, only -1 stands for none. Source: `DefaultRecordBatch.lastSequence`."""
    last_sequence = base_sequence + offset_delta
    return np.where(
        base_sequence >= 0,
        last_sequence & MAX_SEQUENCE,
        np.where(base_sequence == NO_SEQUENCE, base_sequence, last_sequence),
    )


def split_runs(block: Block) -> Iterator[Block]:
    """Split a block into runs of batches of one kind, magic 2 or older; nearly always one run."""
    is_v2 = block.batches.is_v2
    run_starts = np.flatnonzero(np.diff(is_v2)) + 1
    if not len(run_starts):
        yield block
        return
    for first_index, end_index in pairwise([0, *run_starts.tolist(), len(is_v2)]):
        yield slice_block(block, first_index, end_index)


def split_block(block: Block, max_bytes: int) -> Iterator[Block]:
    """Split a block into parts of about `max_bytes` bytes, with at least one batch each."""
    cumulative_bytes = np.cumsum(block.batches.size)
    first_index = 0
    while first_index < len(cumulative_bytes):
        bytes_before_part = int(cumulative_bytes[first_index - 1]) if first_index else 0
        end_index = max(
            int(np.searchsorted(cumulative_bytes, bytes_before_part + max_bytes, "right")),
            first_index + 1,
        )
        yield slice_block(block, first_index, end_index)
        first_index = end_index


def is_legacy(run: Block) -> bool:
    """Whether a run has magic 0 or 1."""
    return len(run.batches) > 0 and not run.batches.is_v2[0]


def _batch_position(block: Block, batch_index: int) -> int:
    """The position in the file of a batch; past the last batch, a value far beyond the file."""
    positions = block.batches.position
    return int(positions[batch_index]) if batch_index < len(positions) else 1 << 62


def slice_block(block: Block, first_index: int, end_index: int) -> Block:
    """Batches [first, stop) as a block, with the findings up to the position of batch
    `end_index`."""
    start_position = _batch_position(block, first_index) if first_index else -1
    end_position = _batch_position(block, end_index)
    findings = [
        finding
        for finding in block.findings
        if start_position <= (finding.position or 0) < end_position
    ]
    batches = block.batches.select_rows(slice(first_index, end_index))
    return Block(block.file_name, block.data, block.data_position, batches, findings)


def undamaged_data_block(block: Block) -> Block:
    """The block with only its undamaged batches, without markers and findings."""
    is_undamaged_data = (block.batches.control == 0) & (block.batches.crc_valid == 1)
    batches = (
        block.batches if is_undamaged_data.all() else block.batches.select_rows(is_undamaged_data)
    )
    return Block(block.file_name, block.data, block.data_position, batches)


def batch_finding(
    block: Block, batch_index: int, code: FindingCode, message: str, **details: Any
) -> Finding:
    """A finding about a batch of the block; `message` follows "batch N: "."""
    return create_batch_finding_with_detail(block, batch_index, code, f": {message}", **details)


def create_batch_finding_with_detail(
    block: Block,
    batch_index: int,
    code: FindingCode,
    detail: str,
    *,
    expected: str | int | None = None,
    found: str | int | None = None,
    position: int | None = None,
    offset: int | None = None,
) -> Finding:
    """A finding about a batch of the block. detail: the text after "batch N"."""
    batches = block.batches
    return Finding(
        file=block.file_name,
        code=code,
        position=int(batches.position[batch_index]) if position is None else position,
        detail=detail,
        offset=int(batches.base_offset[batch_index]) if offset is None else offset,
        expected=expected,
        found=found,
        batch=int(batches.number[batch_index]),
    )
