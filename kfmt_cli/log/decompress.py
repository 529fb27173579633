"""The records of batches, decompressed within bounds; a batch where that fails has none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.codecs.decompress import CompressionError, Limit, TooLargeError, decompress
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import HEADER_SIZE, Block, batch_finding, part_of
from kfmt_cli.rows.log_tables import BATCH_NAMES

# A block is cut where its records decompress to more, so that none takes much memory.
PART = 8 << 20


def decompress_ahead(block: Block, limit: Limit) -> Iterator[Block]:
    """Decompress the records of a block of magic 2 now, for a later `read_records`.

    Decompressors let go of the interpreter for each batch, which slows several threads down; this
    is for the thread that reads, so that the others need not. The block comes back in parts of
    `PART` decompressed bytes or little more.
    """
    batches = block.batches
    if not batches.compression.any() or not batches.is_v2.all():
        yield block
        return
    first = size = 0
    pieces: list[bytes] = []
    for i in range(len(batches)):
        piece = _records_of(block, i, limit, block.findings)
        pieces.append(piece)
        size += len(piece)
        if size >= PART or i + 1 == len(batches):
            part = part_of(block, first, i + 1)
            part.decompressed = _joined(pieces)
            yield part
            first, size, pieces = i + 1, 0, []


def is_heavy(block: Block) -> bool:
    """Whether a block takes so much memory that it must be alone; a large batch makes it so."""
    held = len(block.data) + (len(block.decompressed[0]) if block.decompressed is not None else 0)
    return held > 2 * PART


def _records_of(block: Block, i: int, limit: Limit, findings: list[Finding]) -> bytes:
    """The bytes of a batch's records, decompressed; none, and a finding, where that fails."""
    batches = block.batches
    piece = block.data[int(batches.start[i]) + HEADER_SIZE : int(batches.end[i])]
    codec = int(batches.compression[i])
    if not codec or not piece:
        return piece
    plain = decompress_batch(block, i, codec, piece, limit, findings)
    batches.data[BATCH_NAMES["unreadable"], i] = plain is None
    return plain or b""


def decompressed(
    block: Block, limit: Limit, findings: list[Finding]
) -> tuple[bytes, IntArray, IntArray]:
    """The bytes of the records and each batch's part of them, decompressed where need be."""
    batches = block.batches
    if not batches.compression.any():
        return block.data, batches.start + HEADER_SIZE, batches.end.copy()
    pieces = [_records_of(block, i, limit, findings) for i in range(len(batches))]
    return _joined(pieces)


def _joined(pieces: list[bytes]) -> tuple[bytes, IntArray, IntArray]:
    """The pieces one after the other, and where each starts and ends."""
    ends = np.cumsum([len(piece) for piece in pieces])
    return b"".join(pieces), np.concatenate([[0], ends[:-1]]), ends


def decompress_batch(
    block: Block, i: int, codec: int, data: bytes, limit: Limit, findings: list[Finding]
) -> bytes | None:
    """What a batch's bytes decompress to, or None and a finding."""
    batches = block.batches
    if codec >= len(CODECS) - (batches.is_v2[i] == 0):
        return None  # said when the header was read
    try:
        magic = int(batches.magic[i])
        return decompress(CODECS[codec], data, limit.of(len(data)), magic)
    except TooLargeError as error:
        findings.append(batch_finding(block, i, codes.DECOMPRESSION_LIMIT, str(error)))
    except CompressionError as error:
        findings.append(batch_finding(block, i, codes.DECOMPRESSION_FAILED, str(error)))
    return None
