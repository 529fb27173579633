"""The start of a broker on one partition's directory: what is left of it, or why there is none.

Source: `org.apache.kafka.storage.internals.log.LogLoader`,
`org.apache.kafka.storage.internals.log.UnifiedLog.rebuildProducerState`, `ProducerStateManager`.
What they do was observed too: `tests/test_interop_start.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.settings import INDEX_INTERVAL_BYTES
from kfmt_cli.broker.start.checkpoints import (
    EPOCH_TYPES,
    LEADER_EPOCHS,
    CheckpointError,
    NumberError,
    entries_of,
)
from kfmt_cli.broker.start.files import StartFiles
from kfmt_cli.broker.start.producers import Snapshots, is_snapshot
from kfmt_cli.broker.start.segment import (
    MOST_INDEX_BYTES,
    InvalidOffset,
    OffsetOverflow,
    OpenSegment,
)
from kfmt_cli.broker.start.stored import CorruptError, StartFailed
from kfmt_cli.files.disk import Folder, size_of
from kfmt_cli.files.kinds import INDEXES
from kfmt_cli.files.kinds.kind import read_whole
from kfmt_cli.formats.index import ABORTED_TRANSACTION, MAX_RELATIVE_OFFSET

_ABORTED = ABORTED_TRANSACTION.dtype
_INDEXES = tuple(it.suffix for it in INDEXES)


@dataclass(frozen=True, slots=True)
class Found:
    """What a start goes by. sound: by base offset, the end of each log that recovery leaves as it
    is. recovery_point, log_start: of the checkpoints, 0 without them. wrong_txns: base offsets of
    batches that end the start where the state of producers is rebuilt from them."""

    folder: Folder
    is_clean: bool
    recovery_point: int = 0
    log_start: int = 0
    sound: Mapping[int, int] = field(default_factory=dict)
    wrong_txns: frozenset[int] = frozenset()
    interval: int = INDEX_INTERVAL_BYTES


@dataclass(slots=True)
class Loaded:
    """What a start makes of a partition. segments: that are left, in order. deleted: files, by
    name, in order."""

    segments: list[OpenSegment] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    log_start: int = 0
    log_end: int = 0


def load(found: Found) -> Loaded:
    """A start on a partition; raises StartFailed where the broker does not start, InputError."""
    loader = _Loader(found)
    try:
        return loader.run()
    except CorruptError as error:
        raise StartFailed(str(error)) from error
    finally:
        loader.close()


class _Loader:
    def __init__(self, found: Found) -> None:
        self._found = found
        self._files = StartFiles(found.folder)
        self._segments: dict[int, OpenSegment] = {}
        self._done = Loaded()
        self._snapshots = Snapshots(found.wrong_txns)

    def close(self) -> None:
        for it in self._segments.values():
            it.close()

    def run(self) -> Loaded:
        self._check_epochs()
        self._files.swap()
        self._open_all()
        snapshots = {it: file for it, file in self._files.of.items() if is_snapshot(it)}
        self._snapshots.load({self._files.offset(it): file for it, file in snapshots.items()})
        end = None
        while end is None:  # each round splits a segment
            end = self._recover_log()
        done = self._done
        done.deleted = self._files.deleted
        done.segments = [self._segments[it] for it in sorted(self._segments)]
        done.log_end = end
        done.log_start = max(self._found.log_start, done.segments[0].base)
        self._snapshots.remove_stray(list(self._segments))
        self._snapshots.rebuild(
            done.segments, done.log_start, done.log_end, after_clean=self._found.is_clean
        )
        return done

    def _check_epochs(self) -> None:
        """The epochs are read before anything else."""
        file = self._files.of.get(LEADER_EPOCHS)
        if file is None:
            return
        try:
            rows = entries_of(file, EPOCH_TYPES)
        except (CheckpointError, NumberError) as error:
            raise StartFailed(str(error)) from error
        if any(it < 0 for row in rows for it in row if isinstance(it, int)):
            raise StartFailed(f"{file.name}: an epoch or an offset is negative")

    def _open_all(self) -> None:
        for name in sorted(self._files.of):
            if name not in self._files.of:
                continue
            if name.endswith(_INDEXES):
                offset = self._files.offset(name)
                if f"{offset:020}.log" not in self._files.of:
                    self._files.delete(name)
            elif name.endswith(".log"):
                self._open(name, self._files.offset(name))

    def _open(self, name: str, base: int) -> None:
        log = f"{base:020}.log"
        file = self._files.of.get(log)
        folder = self._found.folder
        if file is None:  # the broker makes a log of that name
            self._segments[base] = OpenSegment.made(base, folder.input(name).name)
            return
        shown = folder.input(log).name
        sound = None if log in self._files.swapped else self._found.sound.get(base)
        segment = OpenSegment(base, shown, file.path, size_of(file), sound)
        segment.given_size = self._files.replaced.get(log, segment.size)
        self._segments[base] = segment
        index = self._files.of.get(f"{base:020}.index")
        if index is None and f"{base:020}.index" not in self._files.made:
            # It is recovered at once, from the segments that are open already.
            self._recover(segment)
        else:
            segment.index = index
            self._check_aborts(base)

    def _check_aborts(self, base: int) -> None:
        """A transaction index whose entries end before the segment makes it be recovered."""
        file = self._files.of.get(f"{base:020}.txnindex")
        if file is None:
            return
        data = read_whole(file, MOST_INDEX_BYTES)
        rows = np.frombuffer(data, _ABORTED, len(data) // _ABORTED.itemsize)
        for i, last_offset in enumerate(rows["last_offset"].tolist()):
            # Of the two bytes of the version, a broker looks at the first.
            if 0 < data[i * _ABORTED.itemsize] < 0x80:
                raise StartFailed(f"{file.name}: an entry has a version that is not known")
            if last_offset < base:
                self._recover(self._segments[base])
                return

    def _recover(self, segment: OpenSegment) -> int:
        """Recover a segment; how many bytes were cut."""
        snapshots = self._snapshots
        before = [it for base, it in sorted(self._segments.items()) if base <= segment.base]
        snapshots.load(snapshots.files)
        snapshots.rebuild(before, self._found.log_start, segment.base, after_clean=False)
        segment.is_recovered = True
        cut = 0
        if segment.sound_end is not None:
            snapshots.recovered(segment.sound_end)
        else:
            try:
                cut = segment.recover(
                    self._found.interval, lambda batch: snapshots.update(segment, batch)
                )
            except OffsetOverflow:
                self._split(segment)
                raise
        snapshots.take()
        return cut

    def _split(self, segment: OpenSegment) -> None:
        """What a broker does with offsets that do not fit; it only can where they end the log."""
        end = segment.next_offset
        if not (end > segment.base and not 0 <= end - 1 - segment.base <= MAX_RELATIVE_OFFSET):
            raise StartFailed(
                f"{segment.name}: a batch has offsets below the segment's name, or too far above it"
            )
        first = next(
            it
            for it in segment.batches()
            if not 0 <= it.last_offset - segment.base <= MAX_RELATIVE_OFFSET
        )
        rest = OpenSegment(
            first.base_offset, segment.name, segment.path, segment.size, first.last_offset + 1
        )
        segment.size = first.position
        segment.sound_end = None
        self._segments[first.base_offset] = rest

    def _recover_log(self) -> int | None:
        """Recover what is not known to be flushed; the log end, None to begin anew."""
        found, segments = self._found, self._segments
        if not found.is_clean:
            bases = sorted(segments)
            below = [it for it in bases if it <= found.recovery_point]
            pending = [it for it in bases if it >= below[-1]] if below else bases
            while pending:
                segment = segments[pending.pop(0)]
                try:
                    cut = self._recover(segment)
                except OffsetOverflow:
                    return None
                except InvalidOffset:
                    cut = segment.empty()
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
        segments[found.log_start] = OpenSegment.made(found.log_start, "")
        return found.log_start
