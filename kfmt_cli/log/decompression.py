"""Decompress the records of batches within limits; a batch that fails has no records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.codecs.decompress import (
    CompressionError,
    DecompressionLimit,
    DecompressionLimitError,
    decompress,
)
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import BATCH_HEADER_BYTES, Block, batch_finding, slice_block

# A block is split when its records decompress to more, to limit memory.
MAX_DECOMPRESSED_BLOCK_BYTES = 8 << 20


def decompress_ahead(block: Block, limit: DecompressionLimit) -> Iterator[Block]:
    """Decompress the records of a block of magic 2, for a later `read_records`.

    Decompressors release the GIL for each batch, which slows several threads down, so the reading
    thread does this alone. Yields the block in parts of `MAX_DECOMPRESSED_BLOCK_BYTES` decompressed
    bytes or little more.
    """
    batches = block.batches
    if not batches.compression.any() or not batches.is_v2.all():
        yield block
        return
    first_index = part_bytes = 0
    record_chunks: list[bytes] = []
    for end_index, record_chunk in enumerate(_iter_record_bytes(block, limit, block.findings), 1):
        record_chunks.append(record_chunk)
        part_bytes += len(record_chunk)
        if part_bytes >= MAX_DECOMPRESSED_BLOCK_BYTES or end_index == len(batches):
            block_part = slice_block(block, first_index, end_index)
            block_part.decompressed = _join_chunks(record_chunks)
            yield block_part
            first_index, part_bytes, record_chunks = end_index, 0, []


def needs_separate_decoding(block: Block) -> bool:
    """Whether a block must be processed separately, because a large batch needs much memory."""
    block_bytes = len(block.data) + (
        len(block.decompressed[0]) if block.decompressed is not None else 0
    )
    return block_bytes > 2 * MAX_DECOMPRESSED_BLOCK_BYTES


def _iter_record_bytes(
    block: Block, limit: DecompressionLimit, findings: list[Finding]
) -> Iterator[bytes]:
    """The decompressed bytes of each batch's records; empty, with a finding, if that fails."""
    batches = block.batches
    header_columns = (
        batches.start + BATCH_HEADER_BYTES,
        batches.end,
        batches.magic,
        batches.compression,
    )
    header_rows = zip(*(column.tolist() for column in header_columns), strict=True)
    for batch_index, (start, end, magic, codec) in enumerate(header_rows):
        record_chunk = block.data[start:end]
        if codec and record_chunk:
            decompressed_chunk = decompress_batch(
                block, batch_index, magic, codec, record_chunk, limit, findings
            )
            if decompressed_chunk is None:
                batches.unreadable[batch_index] = 1
            record_chunk = decompressed_chunk or b""
        yield record_chunk


def record_bytes_and_ranges(
    block: Block, limit: DecompressionLimit, findings: list[Finding]
) -> tuple[bytes, IntArray, IntArray]:
    """The bytes of the records, decompressed if needed, and each batch's start and end in them."""
    batches = block.batches
    if not batches.compression.any():
        return block.data, batches.start + BATCH_HEADER_BYTES, batches.end.copy()
    return _join_chunks(list(_iter_record_bytes(block, limit, findings)))


def _join_chunks(chunks: list[bytes]) -> tuple[bytes, IntArray, IntArray]:
    """The chunks joined, with the start and end of each."""
    chunk_ends = np.cumsum([len(chunk) for chunk in chunks])
    return b"".join(chunks), np.concatenate([[0], chunk_ends[:-1]]), chunk_ends


def decompress_batch(
    block: Block,
    batch_index: int,
    magic: int,
    codec: int,
    stored_bytes: bytes,
    limit: DecompressionLimit,
    findings: list[Finding],
) -> bytes | None:
    """Decompress a batch's bytes. None if that fails: with a finding, or for an unknown codec."""
    if codec >= len(CODECS) - (magic < 2):
        return None  # reported when the header was checked
    try:
        return decompress(
            CODECS[codec], stored_bytes, limit.max_output_bytes(len(stored_bytes)), magic
        )
    except DecompressionLimitError as error:
        findings.append(batch_finding(block, batch_index, codes.DECOMPRESSION_LIMIT, str(error)))
    except CompressionError as error:
        findings.append(batch_finding(block, batch_index, codes.DECOMPRESSION_FAILED, str(error)))
    return None
