"""The gaps between the undamaged batches of a partition, in which transactions may have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kfmt_cli.broker.transactions.damaged_markers import (
    MARKER_BATCH_BYTES,
    MAX_MARKER_BATCH_BYTES,
    DamagedMarker,
    read_damaged_batch,
)
from kfmt_cli.disk.file_access import read_bytes_at
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import is_error
from kfmt_cli.log.block import LOG_OVERHEAD_BYTES, Block, slice_block
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.offset_order import in_order_mask

_MAX_DAMAGED_BATCHES = 1000  # kept of a gap


class BatchGap(NamedTuple):
    """Offsets between two undamaged batches that no undamaged batch contains."""

    first_offset: int
    last_offset: int
    markers: tuple[DamagedMarker, ...] = ()
    """The markers in damaged batches of the gap."""
    may_hide_markers: bool = False
    """Whether unreadable bytes of it may be further markers. Without, compaction may have removed
    its records."""


@dataclass(slots=True)
class BatchGapFinder:
    """Splits blocks into parts without damage, in the order of a partition's logs."""

    logs: Sequence[InputFile]
    """The logs; blocks do not have the bytes between them."""
    get_epochs: Callable[[], Mapping[int, int]]
    """Returns the epochs of the producers with an open transaction, by id."""
    log_end_offset: int = 0
    """The offset after the last undamaged batch so far."""
    last_gap_end: int = -1
    """The offset after the last gap without any damage, such as compaction leaves."""
    has_damage: bool = False
    """Whether there was a damaged gap."""
    _file_name: str = ""
    _end_position: int = 0
    _pending_part: Block | None = None
    """The last undamaged batch of a block, if it may be misplaced."""
    _damaged: list[tuple[bytes, bool]] = field(default_factory=list)
    """The damaged batches since the last undamaged one that may be markers, and whether each is
    whole."""
    _is_after_damage: bool = False
    """Whether there are damaged batches since the last undamaged one."""
    _has_unreadable_bytes: bool = False
    """Whether there are other unreadable bytes since then."""

    def split(self, block: Block) -> Iterator[tuple[BatchGap | None, Block]]:
        """The undamaged batches of the next block, in parts, each with the damaged gap before
        it."""
        if len(block.batches):
            yield from self._release_pending_part(block.batches)
        if block.file_name != self._file_name:
            self._add_file_end()
            self._file_name, self._end_position = block.file_name, 0
        batches = block.batches
        is_adjacent = (
            batches.position == np.append(self._end_position, batches.position + batches.size)[:-1]
        )
        jumps = batches.base_offset - np.append(self.log_end_offset, batches.last_offset + 1)[:-1]
        # The checksum does not cover the length; a broker cannot read past a wrong one.
        has_wrong_length = batches.batch_length + LOG_OVERHEAD_BYTES != batches.size
        is_usable = (batches.crc_valid == 1) & ~(has_wrong_length & (batches.control == 1))
        if bool((is_adjacent & is_usable & (jumps == 0)).all()):
            yield from self._add_part(block, 0, len(batches))
        else:
            is_usable &= in_order_mask(batches, self.log_end_offset)
            first_row = 0
            # Each part ends before a batch that is damaged or does not follow the previous one.
            for row in [*np.flatnonzero(~(is_usable & is_adjacent)).tolist(), len(batches)]:
                yield from self._add_part(block, first_row, row)
                first_row = row
                if row < len(batches):
                    position = int(batches.position[row])
                    self._add_bytes(block, self._end_position, position)
                    self._end_position = position
                    if not is_usable[row]:
                        self._add_damaged(block.data[batches.start[row] : batches.end[row]])
                        self._end_position += int(batches.size[row])
                        first_row += 1
        self._has_unreadable_bytes |= any(
            is_error(finding) and (finding.position or 0) >= self._end_position
            for finding in block.findings
        )

    def finish(self) -> Iterator[tuple[BatchGap | None, Block]]:
        """The last part, after the last block."""
        if self._pending_part is not None:
            yield self._accept_pending_part()

    def take_last_gap(self) -> BatchGap | None:
        """The damaged batches after the last undamaged one; None if there are none. Any other bytes
        there are remnants of a crash."""
        self._add_file_end()
        self._has_unreadable_bytes = False
        return self._take_gap(self.log_end_offset + len(self._damaged))

    def _release_pending_part(self, batches: BatchTable) -> Iterator[tuple[BatchGap | None, Block]]:
        """The pending batch, unless the next batches show that it is misplaced."""
        if self._pending_part is None:
            return
        pending = self._pending_part.batches
        next_offsets = batches.base_offset[batches.crc_valid == 1][:1]
        n_offsets = pending.last_offset[0] - pending.base_offset[0] + 1
        if (next_offsets <= pending.last_offset[0]).any() and (
            next_offsets - self.log_end_offset >= n_offsets
        ).all():
            later_damaged, self._damaged = self._damaged, []
            self._add_damaged(self._pending_part.data[pending.start[0] : pending.end[0]])
            self._damaged += later_damaged
            self._pending_part = None
            return
        yield self._accept_pending_part()

    def _accept_pending_part(self) -> tuple[None, Block]:
        assert self._pending_part is not None
        pending_part, self._pending_part = self._pending_part, None
        self.last_gap_end = int(pending_part.batches.base_offset[0])
        self.log_end_offset = int(pending_part.batches.last_offset[0]) + 1
        return None, pending_part

    def _add_part(
        self, block: Block, first_row: int, end_row: int
    ) -> Iterator[tuple[BatchGap | None, Block]]:
        """A part of a block, in which the batches follow one another."""
        if first_row == end_row:
            return
        part = slice_block(block, first_row, end_row)
        batches = part.batches
        gap = None
        if self._is_after_damage or self._has_unreadable_bytes:
            gap = self._take_gap(int(batches.base_offset[0]))
            self.log_end_offset = int(batches.base_offset[0])
        jumps = batches.base_offset - np.append(self.log_end_offset, batches.last_offset + 1)[:-1]
        self._end_position = int(batches.position[-1] + batches.size[-1])
        if jumps[-1] > 0 and not (block.batches.crc_valid[end_row:] == 1).any():
            last_row = len(batches) - 1
            self._pending_part = slice_block(part, last_row, last_row + 1)
            part = slice_block(part, 0, last_row)
            jumps = jumps[:-1]
        if not len(part.batches) and gap is None:
            return
        gap_ends = part.batches.base_offset[jumps > 0]
        self.last_gap_end = max(self.last_gap_end, int(gap_ends.max(initial=-1)))
        if len(part.batches):
            self.log_end_offset = int(part.batches.last_offset[-1]) + 1
        yield gap, part

    def _add_bytes(self, block: Block, start: int, end: int) -> None:
        """Add bytes that are in no batch, in pieces of the size of a marker."""
        if start >= end:
            return
        if start >= block.data_position:
            data = block.data[start - block.data_position : end - block.data_position]
        else:
            n_bytes = min(end - start, _MAX_DAMAGED_BATCHES * MARKER_BATCH_BYTES)
            data = self._read_bytes(block.file_name, start, n_bytes)
            self._has_unreadable_bytes |= len(data) < end - start
        self._add_in_parts(data, is_one_batch=len(data) == end - start <= MAX_MARKER_BATCH_BYTES)

    def _add_file_end(self) -> None:
        """Add the bytes after the last batch of a file that has damage there."""
        if self._has_unreadable_bytes:
            n_bytes = _MAX_DAMAGED_BATCHES * MARKER_BATCH_BYTES
            data = self._read_bytes(self._file_name, self._end_position, n_bytes)
            self._add_in_parts(data, is_one_batch=len(data) <= MAX_MARKER_BATCH_BYTES)

    def _add_in_parts(self, data: bytes, *, is_one_batch: bool) -> None:
        while len(data) >= MARKER_BATCH_BYTES and len(self._damaged) < _MAX_DAMAGED_BATCHES:
            self._add_damaged(data[:MARKER_BATCH_BYTES], is_whole=is_one_batch)
            data = data[MARKER_BATCH_BYTES:]
        self._has_unreadable_bytes |= len(data) > 0

    def _read_bytes(self, file_name: str, position: int, n_bytes: int) -> bytes:
        """Bytes of a log; none if they cannot be read."""
        for log in self.logs:
            if log.name == file_name:
                with suppress(InputError):
                    return read_bytes_at(log.path, position, n_bytes, log.name)
        return b""

    def _add_damaged(self, data: bytes, *, is_whole: bool = True) -> None:
        """Add a damaged or misplaced batch. is_whole: whether it begins and ends there; else only a
        checksum shows that."""
        self._is_after_damage = True
        if MARKER_BATCH_BYTES <= len(data) <= MAX_MARKER_BATCH_BYTES:  # others are no markers
            if len(self._damaged) < _MAX_DAMAGED_BATCHES:
                self._damaged.append((data, is_whole))
            else:
                self._has_unreadable_bytes = True

    def _take_gap(self, next_offset: int) -> BatchGap | None:
        """The gap before an undamaged batch; None if no offset is missing."""
        damaged, self._damaged = self._damaged, []
        self._is_after_damage = False
        may_hide_markers, self._has_unreadable_bytes = self._has_unreadable_bytes, False
        first_offset, n_offsets = self.log_end_offset, next_offset - self.log_end_offset
        if n_offsets <= 0:
            return None
        self.has_damage = True
        markers: list[DamagedMarker] = []
        epoch_by_producer = self.get_epochs() if damaged else {}
        for data, is_whole in damaged:
            marker, is_certain = read_damaged_batch(data, epoch_by_producer)
            may_hide_markers |= not is_certain
            if marker is not None and (is_whole or marker.is_verified):
                markers.append(marker)
        return BatchGap(
            first_offset,
            next_offset - 1,
            _place_markers(markers, first_offset, next_offset),
            may_hide_markers and len(markers) < n_offsets,
        )


def _place_markers(
    markers: list[DamagedMarker], first_offset: int, next_offset: int
) -> tuple[DamagedMarker, ...]:
    """Markers in order, with offsets within a gap; their own where these fit."""
    placed: list[DamagedMarker] = []
    for index, marker in enumerate(markers):
        min_offset = placed[-1].offset + 1 if placed else first_offset
        max_offset = next_offset - (len(markers) - index)
        if min_offset > max_offset:
            break
        offset = marker.offset if min_offset <= marker.offset <= max_offset else min_offset
        placed.append(marker._replace(offset=offset))
    return tuple(placed)
