"""Computes statistics of many logs from byte ranges of them, so that the bytes read are bounded.

The ranges are spread over all bytes, one at a random position in each of n equal parts. The batches
that begin in a range count, starting at the first one that is proven.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.compressed_files import COMPRESSED_FILE_MESSAGE, compressed_suffix
from kfmt_cli.core.direct_io import DirectSource
from kfmt_cli.core.source import SourceWindow
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_access import find_disk_path, is_remote_path, open_source, stat_path
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.usage import BLOCK_BYTES
from kfmt_cli.errors import InputError
from kfmt_cli.execution.bounds import find_first_batch
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.summary.statistics import LogStatistics

RANGE_BYTES = 256 << 10
# Numbers of bytes to search for a proven batch, tried in this order.
SEARCH_LIMITS_BYTES = (
    RANGE_BYTES,
    4 * RANGE_BYTES,
    16 * RANGE_BYTES,
)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of bytes in a log."""

    log_index: int
    """Index of the log."""
    start: int
    end: int


def choose_byte_ranges(sizes: Sequence[int], max_bytes: int) -> list[ByteRange]:
    """Byte ranges in logs of these sizes, in order; all logs completely if `max_bytes` allows.

    The same sizes give the same ranges, so that two samples of a directory differ only by changes
    in it.
    """
    total_bytes = sum(sizes)
    if total_bytes <= max_bytes:
        return [ByteRange(i, 0, size) for i, size in enumerate(sizes) if size]
    n_ranges = max(max_bytes // RANGE_BYTES, 1)
    random_generator, log_ends = random.Random(total_bytes), np.cumsum(sizes)  # noqa: S311 (not for secrets)
    ranges: list[ByteRange] = []
    for i in range(n_ranges):
        position = int((i + random_generator.random()) * total_bytes / n_ranges)
        log_index = int(np.searchsorted(log_ends, position, side="right"))
        size = sizes[log_index]
        start = min(position - int(log_ends[log_index] - size), max(size - RANGE_BYTES, 0))
        previous_range = ranges[-1] if ranges and ranges[-1].log_index == log_index else None
        if previous_range is not None:
            start = max(start, previous_range.end)
        if start < size:
            ranges.append(ByteRange(log_index, start, min(start + RANGE_BYTES, size)))
    return ranges


def written_size(file: InputFile) -> int:
    """Bytes of a log up to the last one written; its size if that is unknown, as for a log that is
    compressed as a whole."""
    size = file_size(file)
    if is_remote_path(file.path):
        return size
    try:
        if compressed_suffix(file.path) or BLOCK_BYTES * stat_path(file.path).st_blocks >= size:
            return size
        with closing(DirectSource(find_disk_path(file.path) or file.path, file.name)) as source:
            return source.data_end()
    except (InputError, OSError):
        return size


def sample_log(
    file: InputFile, size: int, byte_ranges: Sequence[ByteRange]
) -> tuple[LogStatistics, int]:
    """Statistics of a log from byte ranges of its `size` written bytes, and the number of bytes
    read; raises InputError."""
    statistics = LogStatistics(segments=1, of_bytes=size)
    if not byte_ranges:
        return statistics, 0
    if compressed_suffix(file.path):
        raise InputError(f"{file.name}: {COMPRESSED_FILE_MESSAGE}")
    with closing(_open_metered(file)) as source:
        for byte_range in byte_ranges:
            range_statistics = _sample_range(source, file, byte_range)
            range_statistics.slices = [(range_statistics.records, range_statistics.bytes)]
            statistics.merge_later(range_statistics)
        return statistics, source.bytes_read


class _MeteredSource(SourceWindow):
    """A log that is not a local file; counts the bytes read."""

    bytes_read = 0

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        data = super().read_block(position, length, min_length)
        self.bytes_read += len(data)
        return data


def _open_metered(file: InputFile) -> DirectSource | _MeteredSource:
    if is_remote_path(file.path):
        return _MeteredSource(open_source(file.path, file.name), file_size(file))
    return DirectSource(find_disk_path(file.path) or file.path, file.name)


def _sample_range(
    source: DirectSource | _MeteredSource, file: InputFile, byte_range: ByteRange
) -> LogStatistics:
    """Statistics of the batches that begin in a byte range; their `bytes` include those that are
    not a batch."""
    statistics = LogStatistics()
    if byte_range.start == 0 and byte_range.end >= min(source.size, source.data_end()):
        source.size = byte_range.end
        for block in LogReader(source, file.base_offset, check_crcs=False).iter_blocks():
            statistics.add_block(block)
        statistics.bytes = source.size
        return statistics
    first_position = byte_range.start and _find_first_in_range(source, byte_range)
    end = byte_range.end
    for block in (
        ()
        if first_position is None
        else _read_range_blocks(source, file, first_position, byte_range.end)
    ):
        statistics.add_block(block)
        if len(block.batches):
            end = max(end, int(block.batches.position[-1] + block.batches.size[-1]))
    statistics.bytes = end - (byte_range.start if first_position is None else first_position)
    return statistics


def _find_first_in_range(
    source: DirectSource | _MeteredSource, byte_range: ByteRange
) -> int | None:
    """Position of the first proven batch in a byte range; None if there is none."""
    for search_bytes in SEARCH_LIMITS_BYTES:
        end = min(byte_range.start + search_bytes, source.size)
        # Read the bytes for the whole search at once.
        source.read_block(byte_range.start, end - byte_range.start, 1)
        position = find_first_batch(
            SourceWindow(source, end), byte_range.start, byte_range.end, end
        )
        if position is not None:
            return position
    return None


def _read_range_blocks(
    source: DirectSource | _MeteredSource, file: InputFile, start: int, end: int
) -> Iterator[Block]:
    """The batches that begin between `start` and `end`, up to damage."""
    range_reader = LogReader(
        SourceWindow(source, end), file.base_offset, check_crcs=False, first_block_bytes=RANGE_BYTES
    )
    block = next(range_reader.iter_blocks(start))
    yield block
    if len(block.batches):
        start = int(block.batches.position[-1] + block.batches.size[-1])
    if start < end:  # the last batch ends after the range
        tail_reader = LogReader(source, file.base_offset, check_crcs=False, first_block_bytes=1)
        block = next(tail_reader.iter_blocks(start))
        block.batches = block.batches.select_rows(block.batches.position < end)
        yield block
