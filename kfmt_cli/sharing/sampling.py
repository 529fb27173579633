"""Statistics of many logs from slices of them, so that the bytes read are bounded.

Slices are spread over all bytes, one at a random position in each of n equal parts. In a slice, the
batches that begin in it count, starting at the first one that is proven.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.compressed_files import WHOLLY_PACKED, packed_suffix
from kfmt_cli.core.direct_io import DirectSource
from kfmt_cli.core.source import SourceWindow
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import is_elsewhere, open_source, real, status_of
from kfmt_cli.disk.tree import size_of
from kfmt_cli.disk.usage import BLOCK
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.log.reader import LogReader
from kfmt_cli.log.summary.statistics import Statistics
from kfmt_cli.sharing.bounds import first_batch

SLICE = 256 << 10
REACHES = SLICE, 4 * SLICE, 16 * SLICE  # bytes to search for a proven batch, one after the other


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of bytes in a log."""

    log: int
    """Index of the log."""
    start: int
    end: int


def slices_of(sizes: Sequence[int], budget: int) -> list[Slice]:
    """Slices of logs of these sizes, in order; all logs completely if the budget allows.

    The same for the same sizes, so that two samples of a directory differ only by changes in it.
    """
    total = sum(sizes)
    if total <= budget:
        return [Slice(i, 0, size) for i, size in enumerate(sizes) if size]
    n = max(budget // SLICE, 1)
    chance, ends = random.Random(total), np.cumsum(sizes)  # noqa: S311 (not for secrets)
    found: list[Slice] = []
    for k in range(n):
        at = int((k + chance.random()) * total / n)
        log = int(np.searchsorted(ends, at, side="right"))
        size = sizes[log]
        start = min(at - int(ends[log] - size), max(size - SLICE, 0))
        last = found[-1] if found and found[-1].log == log else None
        if last is not None:
            start = max(start, last.end)
        if start < size:
            found.append(Slice(log, start, min(start + SLICE, size)))
    return found


def written_size(file: Input) -> int:
    """Bytes of a log up to the last one written; its size if that is unknown, as for a log that is
    compressed as a whole."""
    size = size_of(file)
    if is_elsewhere(file.path):
        return size
    try:
        if packed_suffix(file.path) or BLOCK * status_of(file.path).st_blocks >= size:
            return size
        with closing(DirectSource(real(file.path) or file.path, file.name)) as source:
            return source.end_of_data()
    except (InputError, OSError):
        return size


def sampled(file: Input, size: int, slices: Sequence[Slice]) -> tuple[Statistics, int]:
    """Statistics of a log from slices of its `size` written bytes, and the number of bytes read;
    raises InputError."""
    found = Statistics(segments=1, of_bytes=size)
    if not slices:
        return found, 0
    if packed_suffix(file.path):
        raise InputError(f"{file.name}: {WHOLLY_PACKED}")
    with closing(_opened(file)) as source:
        for part in slices:
            here = _read(source, file, part)
            here.slices = [(here.records, here.bytes)]
            found.add(here)
        return found, source.bytes_read


class _Stored(SourceWindow):
    """A log that is not a local file; counts the bytes read."""

    bytes_read = 0

    def block(self, position: int, length: int, least: int) -> bytes:
        data = super().block(position, length, least)
        self.bytes_read += len(data)
        return data


def _opened(file: Input) -> DirectSource | _Stored:
    if is_elsewhere(file.path):
        return _Stored(open_source(file.path, file.name), size_of(file))
    return DirectSource(real(file.path) or file.path, file.name)


def _read(source: DirectSource | _Stored, file: Input, part: Slice) -> Statistics:
    """Statistics of the batches that begin in a slice; `bytes` includes those that are not a
    batch."""
    found = Statistics()
    if part.start == 0 and part.end >= min(source.size, source.end_of_data()):
        source.size = part.end
        for block in LogReader(source, file.base_offset, checked=False).blocks():
            found.take(block)
        found.bytes = source.size
        return found
    first = part.start and _first(source, part)
    end = part.end
    for block in () if first is None else _beginning_in(source, file, first, part.end):
        found.take(block)
        if len(block.batches):
            end = max(end, int(block.batches.position[-1] + block.batches.size[-1]))
    found.bytes = end - (part.start if first is None else first)
    return found


def _first(source: DirectSource | _Stored, part: Slice) -> int | None:
    """Position of the first proven batch in a slice; None if there is none."""
    for reach in REACHES:
        end = min(part.start + reach, source.size)
        source.block(part.start, end - part.start, 1)  # a single read for the whole search
        at = first_batch(SourceWindow(source, end), part.start, part.end, end)
        if at is not None:
            return at
    return None


def _beginning_in(
    source: DirectSource | _Stored, file: Input, start: int, end: int
) -> Iterator[Block]:
    """The batches that begin in a slice, up to damage."""
    whole = LogReader(SourceWindow(source, end), file.base_offset, checked=False, first_block=SLICE)
    block = next(whole.blocks(start))
    yield block
    if len(block.batches):
        start = int(block.batches.position[-1] + block.batches.size[-1])
    if start < end:  # the last batch ends after the slice
        last = LogReader(source, file.base_offset, checked=False, first_block=1)
        block = next(last.blocks(start))
        block.batches = block.batches.select(block.batches.position < end)
        yield block
