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
from kfmt_cli.core.source import TruncatedSource
from kfmt_cli.disk.directory_listing import file_size
from kfmt_cli.disk.file_access import find_disk_path, is_remote_path, open_source, stat_path
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.usage import DISK_BLOCK_BYTES
from kfmt_cli.errors import InputError
from kfmt_cli.execution.bounds import find_first_batch
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.summary.statistics import LogStatistics

SAMPLE_RANGE_BYTES = 256 << 10
# Numbers of bytes to search for a proven batch, tried in this order.
SEARCH_SIZES_BYTES = (
    SAMPLE_RANGE_BYTES,
    4 * SAMPLE_RANGE_BYTES,
    16 * SAMPLE_RANGE_BYTES,
)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of bytes in a log."""

    log_index: int
    """Index of the log."""
    start: int
    end: int


def choose_byte_ranges(log_sizes: Sequence[int], max_bytes: int) -> list[ByteRange]:
    """Byte ranges in logs of these sizes, in order; all logs completely if `max_bytes` allows.

    The same sizes give the same ranges, so that two samples of a directory differ only by changes
    in it.
    """
    total_bytes = sum(log_sizes)
    if total_bytes <= max_bytes:
        return [ByteRange(i, 0, size) for i, size in enumerate(log_sizes) if size]
    n_ranges = max(max_bytes // SAMPLE_RANGE_BYTES, 1)
    random_generator, log_ends = random.Random(total_bytes), np.cumsum(log_sizes)  # noqa: S311 (not for secrets)
    ranges: list[ByteRange] = []
    for i in range(n_ranges):
        total_position = int((i + random_generator.random()) * total_bytes / n_ranges)
        log_index = int(np.searchsorted(log_ends, total_position, side="right"))
        log_size = log_sizes[log_index]
        range_start = min(
            total_position - int(log_ends[log_index] - log_size),
            max(log_size - SAMPLE_RANGE_BYTES, 0),
        )
        previous_range = ranges[-1] if ranges and ranges[-1].log_index == log_index else None
        if previous_range is not None:
            range_start = max(range_start, previous_range.end)
        if range_start < log_size:
            ranges.append(
                ByteRange(log_index, range_start, min(range_start + SAMPLE_RANGE_BYTES, log_size))
            )
    return ranges


def find_written_bytes(file: InputFile) -> int:
    """Bytes of a log up to the last one written; its size if that is unknown, as for a log that is
    compressed as a whole."""
    size = file_size(file)
    if is_remote_path(file.path):
        return size
    try:
        if (
            compressed_suffix(file.path)
            or DISK_BLOCK_BYTES * stat_path(file.path).st_blocks >= size
        ):
            return size
        with closing(DirectSource(find_disk_path(file.path) or file.path, file.name)) as source:
            return source.written_data_end()
    except (InputError, OSError):
        return size


def sample_log(
    file: InputFile, written_bytes: int, byte_ranges: Sequence[ByteRange]
) -> tuple[LogStatistics, int]:
    """Statistics of a log from byte ranges of its `written_bytes` written bytes, and the number of
    bytes read; raises InputError."""
    statistics = LogStatistics(segments=1, of_bytes=written_bytes)
    if not byte_ranges:
        return statistics, 0
    if compressed_suffix(file.path):
        raise InputError(f"{file.name}: {COMPRESSED_FILE_MESSAGE}")
    with closing(_open_counting_source(file)) as source:
        for byte_range in byte_ranges:
            range_statistics = _sample_range(source, file, byte_range)
            range_statistics.slices = [(range_statistics.records, range_statistics.bytes)]
            statistics.merge_later(range_statistics)
        return statistics, source.bytes_read


class _ByteCountingSource(TruncatedSource):
    """A log that is not a local file; counts the bytes read."""

    bytes_read = 0

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        block_bytes = super().read_block(position, length, min_length)
        self.bytes_read += len(block_bytes)
        return block_bytes


def _open_counting_source(file: InputFile) -> DirectSource | _ByteCountingSource:
    if is_remote_path(file.path):
        return _ByteCountingSource(open_source(file.path, file.name), file_size(file))
    return DirectSource(find_disk_path(file.path) or file.path, file.name)


def _sample_range(
    source: DirectSource | _ByteCountingSource, file: InputFile, byte_range: ByteRange
) -> LogStatistics:
    """Statistics of the batches that begin in a byte range; their `bytes` include those that are
    not a batch."""
    statistics = LogStatistics()
    if byte_range.start == 0 and byte_range.end >= min(source.size, source.written_data_end()):
        source.size = byte_range.end
        for block in LogReader(source, file.base_offset, check_crcs=False).iter_blocks():
            statistics.add_block(block)
        statistics.bytes = source.size
        return statistics
    first_batch_position = byte_range.start and _find_first_batch_in_range(source, byte_range)
    sampled_end = byte_range.end
    for block in (
        ()
        if first_batch_position is None
        else _read_range_blocks(source, file, first_batch_position, byte_range.end)
    ):
        statistics.add_block(block)
        if len(block.batches):
            sampled_end = max(sampled_end, int(block.batches.position[-1] + block.batches.size[-1]))
    statistics.bytes = sampled_end - (
        byte_range.start if first_batch_position is None else first_batch_position
    )
    return statistics


def _find_first_batch_in_range(
    source: DirectSource | _ByteCountingSource, byte_range: ByteRange
) -> int | None:
    """Position of the first proven batch in a byte range; None if there is none."""
    for search_size_bytes in SEARCH_SIZES_BYTES:
        search_end = min(byte_range.start + search_size_bytes, source.size)
        # Read the bytes for the whole search at once.
        source.read_block(byte_range.start, search_end - byte_range.start, 1)
        batch_position = find_first_batch(
            TruncatedSource(source, search_end), byte_range.start, byte_range.end, search_end
        )
        if batch_position is not None:
            return batch_position
    return None


def _read_range_blocks(
    source: DirectSource | _ByteCountingSource,
    file: InputFile,
    start_position: int,
    end_position: int,
) -> Iterator[Block]:
    """The batches that begin between `start_position` and `end_position`, up to damage."""
    range_reader = LogReader(
        TruncatedSource(source, end_position),
        file.base_offset,
        check_crcs=False,
        first_block_bytes=SAMPLE_RANGE_BYTES,
    )
    block = next(range_reader.iter_blocks(start_position))
    yield block
    if len(block.batches):
        start_position = int(block.batches.position[-1] + block.batches.size[-1])
    if start_position < end_position:  # the last batch ends after the range
        last_batch_reader = LogReader(
            source, file.base_offset, check_crcs=False, first_block_bytes=1
        )
        block = next(last_batch_reader.iter_blocks(start_position))
        block.batches = block.batches.select_rows(block.batches.position < end_position)
        yield block
