"""Where a stream is: what each trigger reads, and what has been lost.

A partition has one position: the next offset. The segment and byte stored with it only save
reading: they are used if the batch before it ends there. Rolling, deletion and cleaning between two
triggers, and a move to another directory, therefore change nothing. Only complete batches count.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

from kfmt_cli.arrow.inputs import at_hand, files_of
from kfmt_cli.arrow.tiered_logs import Manifests
from kfmt_cli.broker.start.stored import LogBytes
from kfmt_cli.disk.names import partition_of, place_of
from kfmt_cli.errors import InputError, KfmtError
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.read_piece import UnreadError, unread_words
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.following.cleaned import is_swapping
from kfmt_cli.spark.following.copies import BASE, Copy, PartitionLogs, Signature, partitions_in
from kfmt_cli.spark.following.history import Departure, Ends, Room, begins
from kfmt_cli.spark.following.listed import Listings
from kfmt_cli.spark.following.positions import (
    Position,
    Resumed,
    at_most,
    beginning,
    resumed,
    words_of,
)
from kfmt_cli.spark.following.triggers import between, ends_of, selections, splits_of
from kfmt_cli.spark.plan import Split
from kfmt_cli.spark.worker import LOG

T = TypeVar("T")

PAUSES = 0.1, 0.5  # seconds before a listing is asked for again, which a broker may have changed
ADVICE = (
    "to continue with the data that is left, set the option failOnDataLoss to false; to read "
    "everything again, start with a new checkpoint"
)

Kept = dict[str, Any]
"""Positions as a checkpoint stores them, by partition."""


class DataLossError(KfmtError):
    """A stream cannot give what it has promised."""


@dataclass(slots=True)
class Follower:
    """Finds what is new in each partition, reading only segments that have changed."""

    request: Request
    fails: bool = True
    """Whether data loss is an error, instead of a warning."""
    _listings: Listings = field(init=False)
    _manifests: Manifests = field(default_factory=Manifests)
    _ends: Ends = field(default_factory=Ends)
    _there: dict[str, PartitionLogs] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    """Why a path, or what is below one, could not be read."""
    _settled: dict[str, tuple[Position, Signature]] = field(default_factory=dict)
    """Positions at the end of a partition as it was listed."""
    _idle: Kept | None = None
    """The end of all partitions, as long as nothing changes."""
    _told: set[str] = field(default_factory=set)
    _is_stale: bool = True
    """Whether the files have changed since the partitions were found in them."""
    _turn: str = ""
    """The partition to begin with: the first one that a limit has left nothing to."""

    def __post_init__(self) -> None:
        self._listings = Listings(self.request.paths)

    def begin(self) -> None:
        """Check that there are the paths of a new query; raises InputError."""
        self._list()
        for path in self.request.paths:
            if path in self._failed:
                raise InputError(f"{path}: {self._failed[path]}")

    def latest(
        self, kept: Mapping[str, Any], room: Room | None = None, until: Kept | None = None
    ) -> Kept:
        """The position after each partition's last complete batch, or after about as much as there
        is room for; raises DataLossError, InputError.

        until: positions not to go beyond; partitions that are not in it are left for later.
        """
        return self._insisted(lambda: self._latest(kept, replace(room or Room()), until))

    def _latest(self, kept: Mapping[str, Any], room: Room, until: Kept | None) -> Kept:
        self._list()
        if self._idle is not None and self._idle == kept:
            return dict(kept)
        there, at = self._found(kept, is_listed=True)
        found = {key: position.kept() for key, position in at.gone.items()}
        turn = ""
        for key in sorted(there, key=lambda one: (one < self._turn, one)):
            partition, before = there[key], at.found.get(key)
            position, had_room = before, room.is_left
            if room.is_left and (until is None or key in until):
                position = self._readable(partition, before, room)
            if until is not None and position is not None:
                position = at_most(position, before, until.get(key))
            if position is not None:
                found[key] = position.kept()
            if had_room and not room.is_left:
                turn = f"{key}\0"  # the one after it
        self._turn = turn
        self._idle = dict(found) if room.is_left and until is None else None
        return found

    def _readable(
        self, partition: PartitionLogs, before: Position | None, room: Room
    ) -> Position | None:
        """The position after as much of a partition as there is room for, and where it was if it
        cannot be read and that is to be ignored."""
        try:
            return self._advanced(partition, before, room)
        except InputError as error:
            self._unread(error)
            return before

    def _unread(self, error: InputError) -> None:
        """Raise UnreadError for a file that cannot be read, or warn once. What has been deleted
        since it was listed is raised as it is."""
        words = unread_words(error.file, str(error)) if error.file else str(error)
        if error.is_gone and words not in self._told:
            self._told.add(words)
            raise error
        if self.request.raises_unreadable and self.fails:
            raise UnreadError(words) from error
        LOG.warning("kfmt: %s", error)

    def _insisted(self, ask: Callable[[], T]) -> T:
        """The answer; asked again if a file has been deleted since it was listed."""
        for pause in PAUSES:
            try:
                return ask()
            except InputError as error:
                if not error.is_gone:
                    raise
                time.sleep(pause)
        return ask()

    def ends(self) -> Kept:
        """The end of each partition, in the copy that goes furthest; raises as `latest` does."""
        found: Kept = {}
        for key, partition in self._found({})[0].items():
            with self._opening(partition):
                copies = partition.copies
                ends = [self._ends.end_of(copy.logs, Position()).position for copy in copies]
            end = max(ends, key=lambda one: one.offset)
            found[key] = replace(end, first=end.offset).kept()
        return found

    def ends_seen(self) -> Kept:
        """The end of each partition if it is known from the last listing, without reading;
        else the beginning of the last segment."""
        found: Kept = {}
        for key, partition in self._there.items():
            offsets = [copy.logs[-1].base for copy in partition.copies]
            for copy in partition.copies:
                known = self._ends.known(copy.logs[-1])
                offsets += [] if known is None else [known.position.offset]
            found[key] = {"offset": max(offsets)}
        return found

    def splits(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Split]:
        """The data between two positions, distributed to splits; raises DataLossError if it is not
        all there, InputError."""
        return self._insisted(lambda: self._splits(start, end))

    def _splits(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Split]:
        there, last = self._found(end)
        first = resumed(start, there)
        for words in self._lost(first):  # up to Spark 4.1, `latest` is not told the start
            self._lose(words)
        pieces: list[Piece] = []
        wanted: dict[str, Selection] = {}
        ends: dict[str, int] = {}
        for key, position in last.found.items():
            begin = beginning(first.found.get(key), position)
            if begin.offset > position.offset:
                self._lose(
                    f"{words_of(key)}: the log was truncated: it had been read up to offset "
                    f"{begin.offset}, and ends at offset {position.offset}"
                )
            if begin.offset >= position.offset:
                continue
            partition = there[key]
            with self._opening(partition):
                logs = self._holding(partition, begin, position).logs
                found = list(between(logs, begin, position, self._begins))
            pieces += found
            asked = self.request.asked.wanted
            wanted |= selections(asked, logs, begin.offset, position.offset)
            ends |= ends_of(logs, position.offset)
        return splits_of(self.request, pieces, wanted, ends)

    # Listings.

    def _list(self) -> None:
        """List the paths, and the partitions in them."""
        # What could not be read may be readable now, also if its directory has not changed.
        self._is_stale = self._has_changed() or self._is_stale or bool(self._failed)
        if not self._is_stale:
            return
        self._idle = None
        files = self._listings.files
        try:
            request = replace(self.request, paths=tuple(files))
            found = files_of(request, listed=files.__getitem__, manifests=self._manifests)
        except InputError:  # of each file, as below
            found = Pieces()
        self._there = partitions_in(found, self._listings.topic_id, self.request.paths)
        failed = self._listings.failed | found.troubles
        self._failed = {path: why for path, why in failed.items() if self._concerns(path)}
        self._is_stale = False

    def _has_changed(self) -> bool:
        """List the paths, again while a broker replaces segments; whether anything has changed."""
        changed = self._listings.update()
        for pause in PAUSES:
            every = chain.from_iterable(self._listings.files.values())
            if not changed or not is_swapping(file.path for file in every):
                break
            time.sleep(pause)
            self._listings.update()
        return changed

    def _concerns(self, path: str) -> bool:
        """Whether a path may have segments of the topics."""
        topics = {place_of(path.rpartition("/")[2])[0], partition_of(path)[0]} - {None}
        wanted = self.request.topics
        return not wanted or path in self.request.paths or not topics or bool(topics & wanted)

    def _found(
        self, kept: Mapping[str, Any], *, is_listed: bool = False
    ) -> tuple[dict[str, PartitionLogs], Resumed]:
        """The partitions that are there, with their positions; raises DataLossError for what is
        lost. What is lost is looked for again first: a broker may be renaming a directory."""
        for i in range(len(PAUSES) + 1):
            if i or not is_listed:
                self._list()
            at = resumed(kept, self._there)
            lost = [words for words in self._lost(at) if words not in self._told]
            if not lost:
                break
            if i < len(PAUSES):
                time.sleep(PAUSES[i])
        for words in lost:
            self._lose(words)
        for key, old in at.recreated.items():
            at.gone.pop(old, None)
            at.found[key] = Position.at(min(copy.first for copy in self._there[key].copies))
        return self._there, at

    def _lost(self, at: Resumed) -> Iterator[str]:
        """What cannot be listed, and the positions of what is not there any more."""
        failed = self._failed
        if self.request.raises_unreadable or not self.fails:
            for path, why in failed.items():
                yield f"{path}: {why}"
        else:
            for path in self.request.paths:
                if path in failed:
                    yield f"{path}: {failed[path]}"
        for key, old in at.recreated.items():
            yield (
                f"{self._there[key].name} was recreated: its topic id was "
                f"{old.rpartition('@')[2]} and is now {self._there[key].topic_id}; it had been "
                f"read up to offset {at.gone[old].offset}"
            )
        if failed and not self.fails:
            return
        for key, position in at.gone.items():
            if key not in at.recreated.values():
                yield (
                    f"{words_of(key)}: its directory is missing; it had been read up to "
                    f"offset {position.offset}"
                )

    def _lose(self, words: str) -> None:
        """Raise DataLossError, or warn once."""
        if self.fails:
            raise DataLossError(f"kfmt: {words}; {ADVICE}")
        if words not in self._told:
            self._told.add(words)
            LOG.warning("kfmt: %s", words)

    # A partition.

    def _opening(self, partition: PartitionLogs) -> AbstractContextManager[None]:
        """Make the segments of a partition open as what they are."""
        logs = {log.path: log for copy in partition.copies for log in copy.logs}
        return at_hand(self.request, logs.values())

    def _advanced(self, partition: PartitionLogs, before: Position | None, room: Room) -> Position:
        """The position after as much of a partition as there is room for."""
        signature = partition.signature
        if before is not None and self._settled.get(partition.key) == (before, signature):
            return before
        with self._opening(partition):
            copy, at = self._continued(partition, before)
            position = self._taken(copy.logs, at, room)
        if room.is_left:
            self._settled[partition.key] = position, signature
        return position

    def _continued(
        self, partition: PartitionLogs, before: Position | None
    ) -> tuple[Copy, Position]:
        """The copy to read from, and where to begin; raises DataLossError."""
        at = before or Position()
        is_known = before is not None and (at.offset > 0 or at.first >= 0)
        copies = [copy for copy in partition.copies if copy.first <= at.offset]
        if not is_known:
            first = min(copy.first for copy in partition.copies)
            copies = [copy for copy in partition.copies if copy.first == first]
        copy = self._furthest(copies or partition.copies, at)
        if before is None:
            return copy, Position.at(copy.first)
        if copy.first > at.offset:
            if is_known:
                last = copy.first - 1
                self._lose(
                    f"{words_of(partition.key)}: offsets {at.offset} to {last} are lost: the log "
                    f"in {copy.folder} begins at {copy.first}"
                )
            return copy, Position.at(copy.first, at.restarts + 1)
        departure = self._departure(copy, at)
        if departure is not None:
            self._lose(
                f"{words_of(partition.key)}: the log in {copy.folder} was truncated: it had been "
                f"read up to offset {at.offset}, and {departure.words}"
            )
            epoch = self._ends.epoch_before(copy.logs, departure.offset)
            return copy, replace(Position.at(departure.offset, at.restarts + 1), epoch=epoch)
        return copy, at

    def _furthest(self, copies: Sequence[Copy], at: Position) -> Copy:
        """The copy whose log has the largest end."""
        if len(copies) == 1:
            return copies[0]
        return max(copies, key=lambda copy: self._ends.end_of(copy.logs, at).position.offset)

    def _departure(self, copy: Copy, at: Position) -> Departure | None:
        """Whether a copy has another history than that before a position."""
        try:
            return self._ends.departure(copy.logs, at)
        except InputError as error:
            self._unread(error)
            return None

    def _begins(self, log: Piece, at: Position) -> bool:
        """Whether the next offset is at the position's byte of a segment."""
        if at.segment != log.base or not 0 < at.byte <= log.size:
            return False
        try:
            with closing(LogBytes(log.path, log.path)) as opened:
                return begins(opened, at, log.base)
        except InputError as error:
            self._unread(error)
            return False

    def _taken(self, logs: Sequence[Piece], at: Position, room: Room) -> Position:
        """The position after as much of a log as there is room for."""
        begin = at
        for i in range(max(bisect_right(logs, at.offset, key=BASE) - 1, 0), len(logs)):
            log = logs[i]
            following = logs[i + 1].base if i + 1 < len(logs) else None
            start = at.byte if at.segment == log.base and at.byte <= log.size else 0
            if following is not None and room.fits(log.size - start, following - at.offset):
                # The whole segment: continue at the beginning of the next one.
                room.take(log.size - start, following - at.offset)
                at = self._beyond(log, at, following)
                continue
            reached = self._ends.reached(log, at, room)
            if reached.trouble is not None:
                # Its readable part is read once the broker has rolled.
                LOG.warning("kfmt: %s", reached.trouble)
            position, known, before = reached.position, self._ends.known(log), at.offset
            if position.offset > at.offset:
                room.take(position.byte - reached.start, position.offset - at.offset)
                at = position
            if known is None or known.position.offset > at.offset:
                room.exhaust()
            elif at.offset == before and following is not None:  # damage: read what is readable
                room.take(log.size - start, following - at.offset)
                at = self._beyond(log, at, following)
            if not room.is_left:
                break
        if at.epoch < 0 and at.byte == 0 and logs[0].base < at.offset == logs[-1].base:
            # The last segment is empty: the batch before is in the one before.
            at = replace(at, epoch=self._ends.epoch_before(logs, at.offset))
        return replace(at, first=begin.first, restarts=begin.restarts)

    def _beyond(self, log: Piece, at: Position, following: int) -> Position:
        """The position at the beginning of the segment that follows one."""
        known = self._ends.known(log)
        is_end = known is not None and known.position.offset == following
        epoch = known.position.epoch if known is not None and is_end else -1
        return Position(max(following, at.offset), following, 0, epoch=epoch)

    def _holding(self, partition: PartitionLogs, begin: Position, last: Position) -> Copy:
        """The copy to read a trigger from, which may be planned again after a restart; raises
        DataLossError if no copy has all of it."""
        is_known = begin.offset > 0 or begin.first >= 0
        troubles = []
        for copy in partition.copies:
            if is_known and copy.first > begin.offset:
                troubles.append(f"the log in {copy.folder} begins at {copy.first}")
                continue
            departure = self._departure(copy, begin) or self._departure(copy, last)
            if departure is None:
                return copy
            troubles.append(f"in {copy.folder}, {departure.words}")
        self._lose(
            f"{words_of(partition.key)}: offsets {begin.offset} to {last.offset - 1} were to be "
            f"read, but {'; '.join(troubles)}"
        )
        return max(partition.copies, key=lambda one: one.logs[-1].base)
