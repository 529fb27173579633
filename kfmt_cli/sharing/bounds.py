"""Where a part of a log really begins: at the first batch at or after its nominal byte that an
entry of the offset index points to and that is proven to be one.

The readers on both sides of a cut find the same byte, so that each batch belongs to one of them.
The index is never trusted: a position counts only if a batch with a matching checksum is there, its
base offset is not above the entry's offset, and other batches follow. If there is no such position
and the bytes are not searched for one, the first part takes everything.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.opening import bytes_at
from kfmt_cli.errors import InputError
from kfmt_cli.formats import header_numbers as header
from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY
from kfmt_cli.log.block import LOG_OVERHEAD, read_batches
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC, MINIMUMS
from kfmt_cli.sharing.piece import Piece

FOLLOWING = 3  # batches that must follow
MOST_BATCH = 64 << 20
MOST_SEARCHED = 8 << 20
MOST_INDEX = 64 << 20


def bounds(source: Source, piece: Piece, searches: bool = False) -> tuple[int, int]:
    """Start and end of a part in bytes, end exclusive; equal if no batch begins in it.

    searches: without an index, search the bytes for a batch; a record may contain one, so the
    caller must check that the pieces fit together (`sharing/seams.py`).
    """
    if piece.is_whole or piece.is_exact:
        return piece.start, piece.end

    def boundary(nominal: int) -> int:
        entries, size = _entries(piece.path), piece.size
        if not entries.shape[1] and searches:
            found = first_batch(source, nominal, min(nominal + MOST_SEARCHED, size), size)
            return size if found is None else found
        for row in range(int(np.searchsorted(entries[1], nominal)), entries.shape[1]):
            offset, position = entries[:, row].tolist()
            if position < size and _is_batch(source, position, size, offset + piece.base):
                return int(position)
        return size

    start = 0 if piece.start == 0 else boundary(piece.start)
    end = piece.size if piece.is_last else boundary(piece.end)
    return start, end


def first_batch(source: Source, start: int, stop: int, size: int) -> int | None:
    """Position of the first batch in [start, stop) confirmed by its checksum and the batches after
    it; None if there is none. size: bytes of the file."""
    from kfmt_cli.log.damages.search import BatchSearch

    confirmed = BatchSearch(source).confirmed_from(start, stop)
    return next((at for at in confirmed if _is_batch(source, at, size, (1 << 63) - 1)), None)


@lru_cache(maxsize=64)
def _entries(log: str) -> IntArray:
    """Relative offsets and positions, shape (2, n), of a log's index; empty if it is unusable."""
    try:
        data = bytes_at(log.removesuffix(LOG.suffix) + OFFSET_INDEX.suffix, 0, MOST_INDEX)
    except InputError:
        data = b""
    rows = np.frombuffer(
        data, OFFSET_INDEX_ENTRY.dtype, len(data) // OFFSET_INDEX_ENTRY.dtype.itemsize
    )
    entries = np.array([rows["relative_offset"], rows["log_position"]], np.int64)
    entries = entries[:, entries[1] > 0]
    increasing = bool((np.diff(entries[1]) > 0).all())
    return entries if increasing else np.zeros((2, 0), np.int64)


def _is_batch(source: Source, position: int, size: int, offset: int) -> bool:
    """Whether a batch begins at a position to which an index entry with this offset may point."""
    length = _length(source, position, size)
    if not length or length > MOST_BATCH:
        return False
    data = source.block(position, length, length)
    if len(data) < length:
        return False
    starts, ends = np.array([0]), np.array([length])
    batch = read_batches(data, position, 0, starts, ends)
    if not batch.crc_valid[0]:
        return False
    base = int(batch.base_offset[0])
    if batch.has_base_offset[0] and base > offset:
        return False
    at = position + length
    for _ in range(FOLLOWING):
        if at >= size:
            break
        length = _length(source, at, size)
        if not length:
            # A truncated or damaged end follows: complete batches before it would be lost with it.
            return False
        at += length
    return True


def _length(source: Source, position: int, size: int) -> int:
    """Size of the batch that the header at a position declares; 0 if it is not a batch."""
    head = source.block(position, HEADER_UP_TO_MAGIC, HEADER_UP_TO_MAGIC)
    if len(head) < HEADER_UP_TO_MAGIC or head[-1] >= len(MINIMUMS):
        return 0
    declared = header.batch_length(head)
    length = LOG_OVERHEAD + declared
    if declared < int(MINIMUMS[head[-1]]) or position + length > size:
        return 0
    return length
