"""`spark.readStream.format("kfmt")`: growing directories, and buckets that receive segments.

A partition has one position: the next offset. The segment and byte stored with it only save
reading: they are used if a batch with that offset begins there. Rolling, deletion and cleaning
between two triggers therefore change nothing. Only complete batches count.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kfmt_cli.arrow.inputs import at_hand, files_of
from kfmt_cli.broker.start.stored import CorruptError, LogBytes, StartFailed, batches
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.select import Selection
from kfmt_cli.rows.table_types import BATCHES, RECORDS
from kfmt_cli.sharing.piece import Piece, cut, pack
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request, share_of
from kfmt_cli.spark.plan import Split, SplitPartition
from kfmt_cli.spark.request import StreamOptions
from kfmt_cli.spark.worker import Home, carried

if TYPE_CHECKING:
    import pyarrow as pa

LOG_OF = logging.getLogger("kfmt_cli")
EVERYTHING = 1 << 62  # bytes per trigger without a limit

try:  # Spark 4.2 and newer
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    ReadAllAvailable = ReadMaxBytes = SupportsTriggerAvailableNow = object  # type: ignore[misc,assignment]


@dataclass(frozen=True, slots=True)
class Position:
    """The position reached in a partition."""

    offset: int = 0
    """The next offset."""
    segment: int = 0
    """The base offset of the segment that contains the next offset, or will contain it."""
    byte: int = 0
    """The byte at which its batch begins in the segment."""

    @classmethod
    def of(cls, kept: Mapping[str, int] | None) -> Position:
        """The position from a checkpoint; the beginning without one."""
        return cls(**kept) if kept else cls()

    def kept(self) -> dict[str, int]:
        """The position as stored in a checkpoint."""
        return {"offset": self.offset, "segment": self.segment, "byte": self.byte}


@dataclass(slots=True)
class Followed:
    """The end of a segment's complete batches, at the size and time it was read."""

    size: int
    modified: int
    position: Position


@dataclass(slots=True)
class Follower:
    """Finds the end of each partition, reading only segments that have changed."""

    request: Request
    _known: dict[str, Followed] = field(default_factory=dict)
    """By the path of a partition's last segment."""

    def partitions(self) -> dict[str, list[Piece]]:
        """The logs of each partition's directory, in the order of their base offsets."""
        found: dict[str, list[Piece]] = defaultdict(list)
        try:
            files = files_of(self.request)
        except InputError as error:
            if not error.is_gone:
                LOG_OF.warning("kfmt: %s", error)
            return {}
        for file in files:
            if file.kind is LOG and file.base_offset is not None and not file.trouble:
                found[file.folder].append(file)
        for logs in found.values():
            logs.sort(key=_base)
        return found

    def latest(self, start: Mapping[str, Any], most: int = EVERYTHING) -> dict[str, Any]:
        """The position after each partition's last complete batch, or after about `most` bytes in
        total."""
        found = {folder: Position.of(kept) for folder, kept in start.items()}
        left = most
        for folder, logs in sorted(self.partitions().items()):
            before = found.get(folder, Position())
            if left <= 0:
                continue
            with at_hand(self.request, logs):
                found[folder], n_bytes = self._advanced(before, logs, left)
            left -= n_bytes
        return {folder: position.kept() for folder, position in found.items()}

    def _advanced(self, before: Position, logs: list[Piece], most: int) -> tuple[Position, int]:
        """The position after at most about `most` more bytes, and the number of bytes."""
        at, taken = before, 0
        first = max(bisect_right(logs, before.offset, key=_base) - 1, 0)
        for i in range(first, len(logs)):
            log = logs[i]
            following = logs[i + 1] if i + 1 < len(logs) else None
            start = at.byte if at.segment == _base(log) and at.byte <= log.size else 0
            if following is not None and log.size - start <= most - taken:
                # The whole segment: continue at the beginning of the next one.
                taken += log.size - start
                at = Position(max(_base(following), at.offset), _base(following), 0)
                continue
            reached = self._walked(log, start, most - taken, following is None)
            if reached.offset > at.offset:
                taken += reached.byte - start
                at = reached
            elif following is not None:  # damage: read whatever is readable
                taken += log.size - start
                at = Position(max(_base(following), at.offset), _base(following), 0)
            break
        return at, taken

    def _walked(self, log: Piece, start: int, most: int, is_last: bool) -> Position:
        """The position in a segment after at most `most` bytes, but at least one batch."""
        known = self._known.get(log.path)
        same = known is not None and (known.size, known.modified) == (log.size, log.modified)
        if known is not None and same and known.position.byte - start <= most:
            return known.position
        if known is not None and start < known.position.byte <= min(start + most, log.size):
            start = known.position.byte if log.size > known.size else start
        at = Position(0, _base(log), start)
        whole = True
        with closing(LogBytes(log.path, log.path)) as opened:
            try:
                for batch in batches(opened, start, min(log.size, opened.size)):
                    if batch.position + batch.size - start > most and at.offset:
                        whole = False
                        break
                    at = Position(batch.last_offset + 1, _base(log), batch.position + batch.size)
            except (CorruptError, StartFailed) as error:
                # Its readable part is read once the broker has rolled.
                LOG_OF.warning("kfmt: %s", error)
        if known is not None and at.offset == 0 and log.size > known.size:
            return known.position
        if whole and is_last:
            self._known[log.path] = Followed(log.size, log.modified, at)
        return at

    def splits(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Split]:
        """The data between two positions, distributed to splits."""
        pieces: list[Piece] = []
        wanted: dict[str, Selection] = {}
        there = self.partitions()
        for folder, kept in sorted(end.items()):
            first, last = Position.of(start.get(folder)), Position.of(kept)
            logs = there.get(folder, [])
            if first.offset >= last.offset:
                continue
            if not logs or (_base(logs[0]) > first.offset and first.offset):
                LOG_OF.warning(
                    "kfmt: %s: offsets from %d onward are no longer available", folder, first.offset
                )
            with at_hand(self.request, logs):
                found = list(_between(logs, first, last))
            if found:
                pieces += found
                asked = self.request.asked.wanted
                wanted[folder] = _narrowed(asked, first.offset, last.offset - 1)
        share = share_of(self.request, Pieces(pieces))
        parts = (
            part
            for piece in pieces
            for part in (
                cut([replace(piece, is_exact=False)], share) if piece.is_whole else [piece]
            )
        )
        return [Split(Pieces(some), _of_folders(some, wanted)) for some in pack(parts, share)]


def _of_folders(
    pieces: Sequence[Piece], wanted: Mapping[str, Selection]
) -> tuple[tuple[str, Selection], ...]:
    """The selections for the directories of some pieces."""
    return tuple((folder, wanted[folder]) for folder in {piece.folder for piece in pieces})


def _narrowed(asked: Selection, first: int, last: int) -> Selection:
    lowest = first if asked.first_offset is None else max(asked.first_offset, first)
    highest = last if asked.last_offset is None else min(asked.last_offset, last)
    return replace(asked, first_offset=lowest, last_offset=highest)


def _base(log: Piece) -> int:
    return log.base_offset or 0


def _between(logs: Sequence[Piece], first: Position, last: Position) -> Iterator[Piece]:
    """The parts of segments between two positions."""
    for i, log in enumerate(logs):
        following = _base(logs[i + 1]) if i + 1 < len(logs) else None
        if _base(log) >= last.offset or (following is not None and following <= first.offset):
            continue
        start = first.byte if _begins_at(log, first) else 0
        end = last.byte if _begins_at(log, last) and last.byte > start else log.size
        if end > start:
            yield replace(log.part(start, end), is_exact=True)


def _begins_at(log: Piece, position: Position) -> bool:
    """Whether the batch with the next offset begins at the position's byte, or is yet to come."""
    if position.segment != _base(log) or not 0 < position.byte <= log.size:
        return False
    if position.byte == log.size:
        return True
    with closing(LogBytes(log.path, log.path)) as opened:
        try:
            batch = next(batches(opened, position.byte, opened.size), None)
        except (CorruptError, StartFailed):
            return False
    return batch is not None and batch.base_offset == position.offset


class KfmtStreamReader(DataSourceStreamReader):
    """Plans triggers on the driver, reads in the tasks."""

    def __init__(self, request: Request, home: Home, most: int | None, latest: bool) -> None:
        if request.table not in (RECORDS.name, BATCHES.name):
            raise UsageError(f"kfmt: a stream supports records or batches, not {request.table}")
        if request.asked.needs_logs:
            raise UsageError("kfmt: a stream supports neither `last` nor read_committed")
        self.request = request
        self.home = home
        self.most = most
        self.starts_at_latest = latest
        self.follower = Follower(request)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        """Pickle as a function that imports the driver's kfmt in a worker before this class."""
        made = partial(type(self), self.request, self.home, self.most, self.starts_at_latest)
        return carried(self.home, made), ()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """The start of a new query."""
        return self.follower.latest({}) if self.starts_at_latest else {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """The end of the next trigger. Up to Spark 4.1, Spark passes neither start nor limit."""
        most = getattr(limit, "max_bytes", EVERYTHING)
        return self.follower.latest(start or {}, most)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """`maxBytesPerTrigger`, in Spark 4.2 and later."""
        return ReadAllAvailable() if self.most is None else ReadMaxBytes(self.most)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The splits of a trigger."""
        return [SplitPartition(split) for split in self.follower.splits(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        from kfmt_cli.spark.splits import read_split

        assert isinstance(partition, SplitPartition)
        return read_split(self.request, partition.split)


class NowStreamReader(KfmtStreamReader, SupportsTriggerAvailableNow):
    """A reader for Spark versions that announce the trigger AvailableNow."""

    def __init__(self, request: Request, home: Home, most: int | None, latest: bool) -> None:
        super().__init__(request, home, most, latest)
        self.until: dict[str, Any] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the end of the query to the current end of the data."""
        self.until = self.follower.latest({})

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        found = super().latestOffset(start, limit)
        if self.until is None:
            return found
        known = start or {}
        return {
            folder: min(kept, self.until.get(folder, known.get(folder, kept)), key=_offset)
            for folder, kept in found.items()
            if folder in self.until or folder in known
        }


def _offset(kept: Mapping[str, int]) -> int:
    return kept["offset"]


def stream_reader(request: Request, home: Home, options: StreamOptions) -> KfmtStreamReader:
    """The reader that this Spark version supports."""
    tells = SupportsTriggerAvailableNow is not object
    made = NowStreamReader if tells else KfmtStreamReader
    return made(request, home, options.most_bytes, options.starts_at_latest)
