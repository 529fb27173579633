"""A broker's start on one partition's directory: its result, or why it fails.

Source: `org.apache.kafka.storage.internals.log.LogLoader`,
`org.apache.kafka.storage.internals.log.UnifiedLog.rebuildProducerState`, `ProducerStateManager`.
Their behaviour was also observed: `tests/interop/test_start.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCHS,
    CheckpointError,
    NumberError,
    epochs_of,
)
from kfmt_cli.broker.start.files import StartFiles
from kfmt_cli.broker.start.producers import Snapshots, is_snapshot
from kfmt_cli.broker.start.segment import (
    MOST_INDEX_BYTES,
    InvalidOffset,
    OffsetOverflow,
    OpenSegment,
)
from kfmt_cli.broker.start.stored import CorruptError, StartFailed, StoredBatch, wrapped
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.disk.kinds import INDEXES
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import read_whole
from kfmt_cli.disk.tree import Folder, size_of
from kfmt_cli.formats.index import ABORTED_TRANSACTION, MAX_RELATIVE_OFFSET

_ABORTED = ABORTED_TRANSACTION.dtype
_INDEXES = tuple(index.suffix for index in INDEXES)


@dataclass(frozen=True, slots=True)
class KnownLogs:
    """The input of a start."""

    folder: Folder
    is_clean: bool
    version: KafkaVersion
    """The version of the broker."""
    recovery_point: int = 0
    """The recovery point in the checkpoints, 0 if missing."""
    log_start: int = 0
    """The log start offset in the checkpoints, 0 if missing."""
    sound: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By base offset, the first offset and the end of each log that recovery leaves unchanged."""
    trusted: frozenset[int] = frozenset()
    """Base offsets of segments with a valid index."""
    has_transactions: bool = False
    """Whether the sound logs contain transactions."""
    interval: int = INDEX_INTERVAL_BYTES


@dataclass(slots=True)
class Loaded:
    """The result of a start on a partition."""

    segments: list[OpenSegment]
    """The remaining segments, in order."""
    deleted: list[str]
    """File names, in order."""
    log_start: int
    log_end: int

    def close(self) -> None:
        """Close the logs."""
        for segment in self.segments:
            segment.close()


def load(found: KnownLogs, snapshots: Snapshots | None = None) -> Loaded:
    """Start on a partition; raises InputError, and StartFailed if the broker does not start.

    snapshots: the state to take through the start; afterwards it has the remaining snapshots.
    """
    loader = _Loader(found, snapshots or Snapshots(found.has_transactions))
    try:
        return loader.run()
    except (CorruptError, InvalidOffset) as error:
        loader.close()
        raise StartFailed(str(error)) from error
    except StartFailed:
        loader.close()
        raise


class _Loader:
    def __init__(self, found: KnownLogs, snapshots: Snapshots) -> None:
        self._found = found
        self._files = StartFiles(found.folder, found.version)
        self._segments: dict[int, OpenSegment] = {}
        self._parts: dict[int, OpenSegment] = {}  # parts of segments that were split
        self._snapshots = snapshots

    def close(self) -> None:
        for segment in self._segments.values():
            segment.close()

    def run(self) -> Loaded:
        self._check_epochs()
        self._files.swap()
        snapshots = {name: file for name, file in self._files.of.items() if is_snapshot(name)}
        self._snapshots.load({self._files.offset(name): file for name, file in snapshots.items()})
        while not self._open_all():  # each round splits a segment
            pass
        end = None
        while end is None:  # each round splits a segment
            end = self._recover_log()
        self._check_size(self._segments[max(self._segments)])
        segments = [self._segments[base] for base in sorted(self._segments)]
        log_start = max(self._found.log_start, segments[0].base)
        done = Loaded(segments, self._files.deleted, log_start, end)
        self._snapshots.load(self._snapshots.files)
        self._snapshots.remove_stray(list(self._segments))
        self._snapshots.rebuild(segments, log_start, end, after_clean=self._found.is_clean)
        self._find_unstable(done)
        kept = self._snapshots.files
        done.deleted += (name for name in snapshots if self._files.offset(name) not in kept)
        return done

    def _check_size(self, last: OpenSegment) -> None:
        """Check that the last segment's indexes fit the size of a new one, which the broker gives
        them."""
        if last.is_recovered:
            return
        for index in (OFFSET_INDEX, TIME_INDEX):
            name, entry = f"{last.base:020}{index.suffix}", index.layouts[0].dtype.itemsize
            file = self._files.of.get(name)
            most = SEGMENT_INDEX_BYTES // entry * entry
            if file is not None and size_of(file) // entry * entry > most:
                raise StartFailed(
                    f"{self._found.folder.input(name).name}: {size_of(file)} bytes, but "
                    f"segment.index.bytes is {SEGMENT_INDEX_BYTES}"
                )

    def _find_unstable(self, done: Loaded) -> None:
        """Find the batch where the oldest open transaction begins; raises StartFailed."""
        first = self._snapshots.first_unstable
        if first is None:
            return
        first = max(first, done.log_start)
        if first > done.log_end:
            raise StartFailed(
                f"{self._found.folder.name}: a transaction is open from offset {first}, which is "
                "not in the log"
            )
        n_below = sum(segment.base <= first for segment in done.segments)
        for segment in done.segments[max(n_below - 1, 0) :]:
            if segment.sound_end is not None or segment.translate(first) is not None:
                return

    def _check_epochs(self) -> None:
        """Check the leader epochs, which the broker reads before anything else."""
        file = self._files.of.get(LEADER_EPOCHS)
        if file is None:
            return
        try:
            epochs_of(file)
        except (CheckpointError, NumberError) as error:
            raise StartFailed(str(error), is_offline=isinstance(error, CheckpointError)) from error

    def _open_all(self) -> bool:
        """Open every segment; False if one was split and all must be opened again."""
        self._segments = dict(self._parts)
        try:
            for name in sorted(self._files.of):
                if name not in self._files.of:
                    continue
                if name.endswith(_INDEXES):
                    offset = self._files.offset(name)
                    if f"{offset:020}.log" not in self._files.of:
                        self._files.delete(name)
                elif name.endswith(".log"):
                    self._open(name, self._files.offset(name))
        except OffsetOverflow:
            return False
        return True

    def _open(self, name: str, base: int) -> None:
        if base in self._parts:
            return
        log = f"{base:020}.log"
        file = self._files.of.get(log)
        folder = self._found.folder
        if file is None:  # the broker creates a log with that name
            self._segments[base] = OpenSegment.made(
                base, folder.input(name).name, self._found.version
            )
            return
        shown = folder.input(log).name
        sound = None if log in self._files.swapped else self._found.sound.get(base)
        sound_end = None if sound is None else sound[1]
        segment = OpenSegment(base, shown, file.path, size_of(file), sound_end, self._found.version)
        given = 0 if log in self._files.swapped else segment.size
        segment.given_size = self._files.replaced.get(log, given)
        self._segments[base] = segment
        index = self._files.of.get(f"{base:020}.index")
        segment.has_folder = f"{base:020}.index" in folder.folders
        if segment.has_folder:
            segment.sound_end = None
        elif index is None and f"{base:020}.index" not in self._files.made:
            # The broker recovers it at once, with the segments that are already open.
            self._recover(segment, is_opening=True)
        else:
            segment.index = index
            self._check_aborts(base)

    def _check_aborts(self, base: int) -> None:
        """Recover a segment if its transaction index has an entry that ends before the segment."""
        file = self._files.of.get(f"{base:020}.txnindex")
        if file is None:
            return
        data = read_whole(file, MOST_INDEX_BYTES)
        rows = np.frombuffer(data, _ABORTED, len(data) // _ABORTED.itemsize)
        for i, last_offset in enumerate(rows["last_offset"].tolist()):
            # Of the version's two bytes, a broker checks the first.
            if 0 < data[i * _ABORTED.itemsize] < 0x80:
                raise StartFailed(f"{file.name}: an entry has an unknown version")
            if last_offset < base:
                self._recover(self._segments[base], is_opening=True)
                return

    def _recover(self, segment: OpenSegment, *, is_opening: bool = False) -> int:
        """Recover a segment; returns the number of bytes truncated. is_opening: it is not among
        the segments of the log yet."""
        snapshots = self._snapshots
        before = [
            open_segment
            for base, open_segment in sorted(self._segments.items())
            if base < segment.base or not is_opening
        ]
        snapshots.load(snapshots.files)
        snapshots.rebuild(before, self._found.log_start, segment.base, after_clean=False)
        segment.is_recovered = True
        cut = 0
        snapshots.begin_index()
        if snapshots.passes(segment) and segment.sound_end is not None:
            if not segment.is_legacy:
                snapshots.recovered(segment.sound_end)
        else:
            try:
                cut = segment.recover(self._found.interval, partial(self._update, segment))
            except OffsetOverflow:
                self._split(segment)
                raise
        snapshots.take()
        return cut

    def _update(self, segment: OpenSegment, batch: StoredBatch) -> None:
        self._snapshots.update(segment, batch, indexed=True)
        self._snapshots.settle()

    def _split(self, segment: OpenSegment) -> None:
        """Split a segment whose offsets are out of range for its base offset."""
        end = segment.next_offset
        last = wrapped(wrapped(end - 1) - segment.base)
        if not (end > segment.base and not 0 <= last <= MAX_RELATIVE_OFFSET):
            raise StartFailed(
                f"{segment.name}: a batch has offsets below the segment's base offset, or too far "
                "above it"
            )
        self._segments.pop(segment.base)
        parts: dict[int, OpenSegment] = {}
        part: OpenSegment | None = None
        at = 0
        for batch in segment.batches():
            if part is None or not part.fits(batch):
                first = segment.first_offset(batch)
                if part is not None and part.base == first:
                    raise StartFailed(f"{segment.name}: a batch fits into no segment")
                part = segment.part(first, at)
                parts[part.base] = part
            at = part.size = batch.end
        self._parts.pop(segment.base, None)
        self._parts |= parts
        self._segments |= parts
        if segment.base not in parts:
            self._files.delete(f"{segment.base:020}.log")
        if at < segment.size:
            raise StartFailed(
                f"{segment.name} byte {at}: cannot split here, no batch starts at this byte"
            )

    def _recover_log(self) -> int | None:
        """Recover unflushed segments; returns the log end offset, None to start again."""
        found, segments = self._found, self._segments
        if not found.is_clean:
            bases = sorted(segments)
            below = [base for base in bases if base <= found.recovery_point]
            pending = [base for base in bases if base >= below[-1]] if below else bases
            while pending:
                segment = segments[pending.pop(0)]
                try:
                    cut = self._recover(segment)
                except OffsetOverflow:
                    return None
                except InvalidOffset:
                    cut = segment.empty()
                    self._snapshots.emptied(segment)
                if cut > 0:
                    for base in pending:
                        self._files.delete(f"{base:020}.log")
                        segments.pop(base).close()
                    pending.clear()
        if segments:
            end = segments[max(segments)].end
            if end >= found.log_start:
                return end
            for base in sorted(segments):
                self._files.delete(f"{base:020}.log")
                segments.pop(base).close()
            self._snapshots.files.clear()
        segments[found.log_start] = self._anew(found.log_start)
        return found.log_start

    def _anew(self, base: int) -> OpenSegment:
        """An empty segment, which may reuse the name of a deleted one."""
        log = f"{base:020}.log"
        segment = OpenSegment.made(base, self._found.folder.input(log).name, self._found.version)
        if log in self._files.deleted:
            self._files.deleted.remove(log)
            segment.given_size = size_of(self._found.folder.input(log))
        return segment
