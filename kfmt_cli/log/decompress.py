"""Decompress the records of batches within limits; a batch that fails has none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.codecs.decompress import CompressionError, Limit, TooLargeError, decompress
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import HEADER_SIZE, Block, batch_finding, part_of

# A block is split when its records decompress to more, to limit memory.
PART = 8 << 20


def decompress_ahead(block: Block, limit: Limit) -> Iterator[Block]:
    """Decompress the records of a block of magic 2, for a later `read_records`.

    Decompressors release the GIL for each batch, which slows several threads down, so the reading
    thread does this alone. Yields the block in parts of `PART` decompressed bytes or little more.
    """
    batches = block.batches
    if not batches.compression.any() or not batches.is_v2.all():
        yield block
        return
    first = size = 0
    pieces: list[bytes] = []
    for i, piece in enumerate(_records_of(block, limit, block.findings), 1):
        pieces.append(piece)
        size += len(piece)
        if size >= PART or i == len(batches):
            part = part_of(block, first, i)
            part.decompressed = _joined(pieces)
            yield part
            first, size, pieces = i, 0, []


def is_heavy(block: Block) -> bool:
    """Whether a block must be processed alone, because a large batch needs much memory."""
    held = len(block.data) + (len(block.decompressed[0]) if block.decompressed is not None else 0)
    return held > 2 * PART


def _records_of(block: Block, limit: Limit, findings: list[Finding]) -> Iterator[bytes]:
    """The decompressed bytes of each batch's records; empty, with a finding, if that fails."""
    batches = block.batches
    columns = batches.start + HEADER_SIZE, batches.end, batches.magic, batches.compression
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for i, (start, end, magic, codec) in enumerate(rows):
        piece = block.data[start:end]
        if codec and piece:
            plain = decompress_batch(block, i, magic, codec, piece, limit, findings)
            if plain is None:
                batches.unreadable[i] = 1
            piece = plain or b""
        yield piece


def decompressed(
    block: Block, limit: Limit, findings: list[Finding]
) -> tuple[bytes, IntArray, IntArray]:
    """The bytes of the records, decompressed if needed, and each batch's start and end in them."""
    batches = block.batches
    if not batches.compression.any():
        return block.data, batches.start + HEADER_SIZE, batches.end.copy()
    return _joined(list(_records_of(block, limit, findings)))


def _joined(pieces: list[bytes]) -> tuple[bytes, IntArray, IntArray]:
    """The pieces joined, with the start and end of each."""
    ends = np.cumsum([len(piece) for piece in pieces])
    return b"".join(pieces), np.concatenate([[0], ends[:-1]]), ends


def decompress_batch(
    block: Block,
    i: int,
    magic: int,
    codec: int,
    data: bytes,
    limit: Limit,
    findings: list[Finding],
) -> bytes | None:
    """Decompress a batch's bytes; None, with a finding, if that fails."""
    if codec >= len(CODECS) - (magic < 2):
        return None  # reported when the header was checked
    try:
        return decompress(CODECS[codec], data, limit.of(len(data)), magic)
    except TooLargeError as error:
        findings.append(batch_finding(block, i, codes.DECOMPRESSION_LIMIT, str(error)))
    except CompressionError as error:
        findings.append(batch_finding(block, i, codes.DECOMPRESSION_FAILED, str(error)))
    return None
