"""The ends of logs, and whether a log still has the history that a stream has read.

A broker that becomes a follower may truncate its log and write it again: its end then falls below
the position, or the batch before the position has another leader epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.start.stored import (
    CorruptError,
    LogBytes,
    StartFailed,
    StoredBatch,
    batches,
)
from kfmt_cli.formats import header_numbers as header
from kfmt_cli.log.block import HEADER_SIZE
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.spark.following.copies import BASE
from kfmt_cli.spark.following.positions import Position

EVERYTHING = 1 << 62  # bytes or offsets per trigger without a limit


@dataclass(slots=True)
class Room:
    """What a trigger may still take."""

    n_bytes: int = EVERYTHING
    n_offsets: int = EVERYTHING
    is_fresh: bool = True
    """Whether it has taken nothing yet: it takes at least a batch."""

    @property
    def is_left(self) -> bool:
        """Whether it may take anything."""
        return self.n_bytes > 0 and self.n_offsets > 0

    def fits(self, n_bytes: int, n_offsets: int) -> bool:
        """Whether it may take these too."""
        return n_bytes <= self.n_bytes and n_offsets <= self.n_offsets

    def exhaust(self) -> None:
        """Leave nothing: what comes next does not fit."""
        self.n_bytes = 0

    def take(self, n_bytes: int, n_offsets: int) -> None:
        """Take these; the rest may become negative, as a batch is taken whole."""
        self.is_fresh = False
        self.n_bytes -= n_bytes
        self.n_offsets -= n_offsets


@dataclass(frozen=True, slots=True)
class Reached:
    """Where the complete batches of a segment end."""

    position: Position
    """After the last one that was asked for. Its offset is that of the segment if there is none."""
    start: int = 0
    """The byte at which the batches that were asked for begin."""
    trouble: str | None = None
    """Why the batches after it cannot be stepped over."""


@dataclass(frozen=True, slots=True)
class Departure:
    """What shows that a log has another history than the one that was read."""

    words: str
    offset: int
    """Where the other history begins, if that can be told."""


@dataclass(slots=True)
class Ends:
    """Finds the ends of segments, each again only where it has changed."""

    _known: dict[str, tuple[int, int, Reached]] = field(default_factory=dict)
    """Size, time and end of segments, by their paths."""

    def known(self, log: Piece) -> Reached | None:
        """The end of a segment that has not changed since it was read."""
        size, modified, reached = self._known.get(log.path, (-1, 0, None))
        return reached if (size, modified) == (log.size, log.modified) else None

    def reached(self, log: Piece, at: Position, room: Room | None = None) -> Reached:
        """How far a segment goes from a position within the room; raises InputError."""
        limit = room or Room()
        start = at.byte if at.segment == log.base else 0
        known = self.known(log)
        if known is not None:
            end = known.position
            if end.offset <= at.offset or limit.fits(end.byte - start, end.offset - at.offset):
                return replace(known, start=min(start, end.byte))
        with closing(LogBytes(log.path, log.path)) as opened:
            start = start if begins(opened, at, log.base) else 0
            position = at if start else Position(log.base, log.base)
            before = self._known.get(log.path)
            if room is None and before is not None and before[2].position.byte > start:
                end = before[2].position
                position = end if begins(opened, end, log.base) else position
            found, is_end = _stepped(opened, log, position, at.offset, limit)
        if is_end:
            self._known[log.path] = log.size, log.modified, found
        return found

    def end_of(self, logs: Sequence[Piece], at: Position) -> Reached:
        """The end of a log; raises InputError. at: a position in it, for what need not be read."""
        return self.reached(logs[-1], at)

    def departure(self, logs: Sequence[Piece], at: Position) -> Departure | None:
        """Whether a log has another history than that before a position; raises InputError."""
        if logs[-1].base < at.offset:
            end = self.end_of(logs, at)
            if end.position.offset < at.offset and end.trouble is None:
                words = f"the log ends at offset {end.position.offset}"
                return Departure(words, self._new_from(logs, at, end.position.offset))
        if at.epoch < 0:
            return None
        epoch = self._epoch_before(logs, at)
        if epoch in (-1, at.epoch):
            return None
        words = f"offset {at.offset - 1} has leader epoch {epoch} instead of {at.epoch}"
        return Departure(words, self._new_from(logs, at, at.offset - 1))

    def _epoch_before(self, logs: Sequence[Piece], at: Position) -> int:
        """The leader epoch of the batch with the offset before a position, or a later epoch of a
        batch before it; -1 if it cannot be told, as after cleaning."""
        log = next((log for log in logs if log.base == at.segment), None)
        if log is not None and at.last >= 0:
            with closing(LogBytes(log.path, log.path)) as opened:
                if begins(opened, at, at.segment):
                    return at.epoch
        return self.epoch_before(logs, at.offset, at.epoch)

    def epoch_before(self, logs: Sequence[Piece], offset: int, most: int = EVERYTHING) -> int:
        """The leader epoch of the batch with the offset before one, or an epoch above `most` of a
        batch before it; -1 if it cannot be told. Raises InputError."""
        log = logs[max(bisect_right(logs, offset - 1, key=BASE) - 1, 0)]
        with closing(LogBytes(log.path, log.path)) as opened:
            try:
                for batch in batches(opened, 0, min(log.size, opened.size)):
                    epoch = epoch_of(opened, batch)
                    if batch.base_offset >= offset:
                        # What follows a batch that was cleaned away has its epoch or a later one.
                        return epoch if 0 <= epoch < most < EVERYTHING else -1
                    if epoch > most or batch.last_offset >= offset - 1:
                        return max(epoch, -1)
            except (CorruptError, StartFailed):
                pass
        return -1

    def _new_from(self, logs: Sequence[Piece], at: Position, most: int) -> int:
        """The offset of the first batch of a later leader epoch than the one before a position, at
        most `most`, and at least that of the log."""
        for log in reversed(logs if at.epoch >= 0 else ()):
            with closing(LogBytes(log.path, log.path)) as opened:
                try:
                    for batch in batches(opened, 0, min(log.size, opened.size)):
                        epoch = epoch_of(opened, batch)
                        if epoch > at.epoch:
                            most = min(most, batch.base_offset)
                            break
                        if batch.base_offset > most:
                            break
                    first = next(batches(opened, 0, opened.size), None)
                    if first is not None and 0 <= epoch_of(opened, first) <= at.epoch:
                        break
                except (CorruptError, StartFailed):
                    continue
        return max(most, logs[0].base)


def begins(opened: LogBytes, at: Position, base: int) -> bool:
    """Whether the batch with the next offset begins at the position's byte of a segment, or is yet
    to come: the batch before it ends there, or it begins there."""
    if at.segment != base or not 0 < at.byte <= opened.size:
        return False
    try:
        if at.last >= 0:
            batch = next(batches(opened, at.last, opened.size), None)
            if batch is None or batch.end != at.byte or batch.last_offset + 1 != at.offset:
                return False
            return at.epoch in (-1, epoch_of(opened, batch))
        if at.byte == opened.size:
            return True
        batch = next(batches(opened, at.byte, opened.size), None)
    except (CorruptError, StartFailed):
        return False
    return batch is not None and batch.base_offset == at.offset


def epoch_of(opened: LogBytes, batch: StoredBatch) -> int:
    """The leader epoch in a batch; -1 if it has none."""
    if batch.magic < 2:
        return -1
    return header.partition_leader_epoch(opened.read(batch.position, HEADER_SIZE))


def _stepped(
    opened: LogBytes, log: Piece, position: Position, wanted: int, room: Room
) -> tuple[Reached, bool]:
    """Step over batches from a position: how far they go of which some offset is wanted, within
    the room, and whether that is all of them."""
    last, begin, trouble, is_end = None, -1, None, True
    try:
        for batch in batches(opened, position.byte, min(log.size, opened.size)):
            if batch.last_offset >= wanted:
                begin = batch.position if begin < 0 else begin
                n_offsets = batch.last_offset + 1 - max(wanted, log.base)
                is_due = room.is_fresh and batch.position == begin
                if not is_due and not room.fits(batch.end - begin, n_offsets):
                    is_end = False
                    break
            last = batch
    except (CorruptError, StartFailed) as error:
        trouble = str(error)
    if last is not None:
        offset, epoch = max(last.last_offset + 1, position.offset), epoch_of(opened, last)
        position = Position(offset, log.base, last.end, last.position, epoch)
    return Reached(position, position.byte if begin < 0 else begin, trouble), is_end
