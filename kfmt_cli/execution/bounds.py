"""Finds where a split of a log actually begins: at the first proven batch at or after its nominal
byte to which an entry of the offset index points.

The readers on both sides of a boundary find the same byte, so each batch belongs to one of them.
The index is never trusted: a position counts only if a batch with a matching checksum is there, its
base offset is not above the entry's offset, and other batches follow. If there is no such position
and the bytes are not searched for one, the first split extends to the end of the file.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.source import Source
from kfmt_cli.disk.file_access import read_bytes_at
from kfmt_cli.disk.kinds.fixed_size_rows import OFFSET_INDEX_KIND
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY
from kfmt_cli.log.block import LOG_OVERHEAD_BYTES, read_batches
from kfmt_cli.log.damage.batch_candidates import BYTES_UP_TO_MAGIC, MIN_LENGTH_BY_MAGIC

N_FOLLOWING_BATCHES = 3  # batches that must follow
MAX_BATCH_BYTES = 64 << 20
MAX_SEARCH_BYTES = 8 << 20
MAX_INDEX_BYTES = 64 << 20


def compute_split_bounds(
    source: Source, split: FileSplit, searches_without_index: bool = False
) -> tuple[int, int]:
    """Start and end of a split in bytes, end exclusive; equal if no batch begins in it.

    searches_without_index: without an index, search the bytes for a batch; a record may contain
    one, so the caller must check that the splits fit together (`execution/split_merger.py`).
    """
    if split.is_entire_file or split.is_batch_aligned:
        return split.start, split.end

    def find_boundary(nominal_position: int) -> int:
        file_size = split.file_size
        index_entries = _read_index_entries(split.path, file_size, split.modified_ns)
        if not index_entries.shape[1] and searches_without_index:
            batch_position = find_first_batch(
                source,
                nominal_position,
                min(nominal_position + MAX_SEARCH_BYTES, file_size),
                file_size,
            )
            return file_size if batch_position is None else batch_position
        for entry_index in range(
            int(np.searchsorted(index_entries[1], nominal_position)), index_entries.shape[1]
        ):
            relative_offset, position = index_entries[:, entry_index].tolist()
            if position < file_size and _is_confirmed_batch(
                source, position, file_size, relative_offset + split.base_offset_or_zero
            ):
                return int(position)
        return file_size

    start_byte = 0 if split.start == 0 else find_boundary(split.start)
    end_byte = split.file_size if split.is_last_in_file else find_boundary(split.end)
    return start_byte, end_byte


def find_first_batch(
    source: Source, search_start: int, search_end: int, file_size: int
) -> int | None:
    """Position of the first batch in [start, search_end) confirmed by its checksum and the batches
    after it; None if there is none. file_size: in bytes."""
    from kfmt_cli.log.damage.search import BatchSearch

    candidates = BatchSearch(source).iter_batch_starts(search_start, search_end)
    return next(
        (
            position
            for position in candidates
            if _is_confirmed_batch(source, position, file_size, (1 << 63) - 1)
        ),
        None,
    )


@lru_cache(maxsize=64)
def _read_index_entries(log_path: str, log_size: int, log_modified_ns: int) -> IntArray:
    """Relative offsets and positions, shape (2, n), of a log's index; empty if it is unusable.

    log_size, log_modified_ns: those of the log, whose index is read again after it has changed.
    """
    del log_size, log_modified_ns
    try:
        index_bytes = read_bytes_at(
            log_path.removesuffix(LOG_KIND.suffix) + OFFSET_INDEX_KIND.suffix, 0, MAX_INDEX_BYTES
        )
    except InputError:
        index_bytes = b""
    index_rows = np.frombuffer(
        index_bytes, OFFSET_INDEX_ENTRY.dtype, len(index_bytes) // OFFSET_INDEX_ENTRY.dtype.itemsize
    )
    offsets_and_positions = np.array(
        [index_rows["relative_offset"], index_rows["log_position"]], np.int64
    )
    offsets_and_positions = offsets_and_positions[:, offsets_and_positions[1] > 0]
    is_increasing = bool((np.diff(offsets_and_positions[1]) > 0).all())
    return offsets_and_positions if is_increasing else np.zeros((2, 0), np.int64)


def _is_confirmed_batch(
    source: Source, position: int, file_size: int, max_base_offset: int
) -> bool:
    """Whether a batch with at most this base offset begins at a position: its checksum matches, and
    complete batches or the end of the file follow."""
    batch_size = _declared_batch_size(source, position, file_size)
    if not batch_size or batch_size > MAX_BATCH_BYTES:
        return False
    batch_bytes = source.read_block(position, batch_size, batch_size)
    if len(batch_bytes) < batch_size:
        return False
    batch_starts, batch_ends = np.array([0]), np.array([batch_size])
    batch_table = read_batches(batch_bytes, position, 0, batch_starts, batch_ends)
    if not batch_table.crc_valid[0]:
        return False
    base_offset = int(batch_table.base_offset[0])
    if batch_table.has_base_offset[0] and base_offset > max_base_offset:
        return False
    next_position = position + batch_size
    for _ in range(N_FOLLOWING_BATCHES):
        if next_position >= file_size:
            break
        batch_size = _declared_batch_size(source, next_position, file_size)
        if not batch_size:
            # A truncated or damaged end follows: the complete batches before it would be lost too.
            return False
        next_position += batch_size
    return True


def _declared_batch_size(source: Source, position: int, file_size: int) -> int:
    """Size of the batch that the header at a position declares; 0 if it is not a batch."""
    header_prefix = source.read_block(position, BYTES_UP_TO_MAGIC, BYTES_UP_TO_MAGIC)
    if len(header_prefix) < BYTES_UP_TO_MAGIC or header_prefix[-1] >= len(MIN_LENGTH_BY_MAGIC):
        return 0
    declared_length = header.batch_length(header_prefix)
    batch_size = LOG_OVERHEAD_BYTES + declared_length
    if (
        declared_length < int(MIN_LENGTH_BY_MAGIC[header_prefix[-1]])
        or position + batch_size > file_size
    ):
        return 0
    return batch_size
