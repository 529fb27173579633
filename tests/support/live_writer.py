"""A log directory that is written in the order in which a broker performs its file operations.

Every operation is a step, so that a test decides what a reader sees: `LiveWriter.stepping` performs
the next one whenever the reader lists, examines or opens a file. Source: `LogSegment.append`,
`LocalLog.roll`, `LocalLog.removeAndDeleteSegments`, `LocalLog.replaceSegments`,
`org.apache.kafka.server.common.CheckpointFile`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from unittest import mock

from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.formats.batch import RECORD_BATCH
from tests.support.rebuild import record, with_crc

SEGMENT_BYTES, INDEX_INTERVAL_BYTES = 9_000, 1_000
INDEX_BYTES = 1200  # of a preallocated index
PRODUCER_ID = 7
EMPTY_PRODUCERS = struct.pack(">i", 0)
SNAPSHOT = struct.pack(">hI", 1, compute_crc(CRC32C_POLYNOMIAL, EMPTY_PRODUCERS)) + EMPTY_PRODUCERS
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
Steps = Iterator[None]


def _batch(offset: int, attributes: int, body: bytes, producer_id: int = -1) -> bytes:
    header = RECORD_BATCH.encode_row(
        {
            "base_offset": offset,
            "batch_length": 49 + len(body),
            "partition_leader_epoch": 0,
            "magic": 2,
            "crc": 0,
            "attributes": attributes,
            "last_offset_delta": 0,
            "base_timestamp": 1_700_000_000_000 + offset,
            "max_timestamp": 1_700_000_000_000 + offset,
            "producer_id": producer_id,
            "producer_epoch": -1 if producer_id < 0 else 0,
            "base_sequence": -1,
            "records_count": 1,
        }
    )
    return with_crc(header + body)


class LivePartition:
    """A partition; each method yields after each file operation."""

    is_at_rest = False
    """Whether nothing is half done."""
    max_segments = 4
    """Before the oldest is deleted, or all closed ones are cleaned."""

    def __init__(self, directory: Path, *, is_compacted: bool) -> None:
        self.directory, self.is_compacted = directory, is_compacted
        self.base_offsets: list[int] = []
        self.next_offset = 0
        self._size = self._unindexed_bytes = self._n_entries = self._n_times = 0
        self._last_batch_bytes = 0
        directory.mkdir(parents=True)

    def _path(self, base_offset: int, suffix: str) -> Path:
        return self.directory / f"{base_offset:020}{suffix}"

    @property
    def _active(self) -> int:
        return self.base_offsets[-1]

    def append(self) -> Steps:
        """Append the next batch: in each ten a transaction of three, which is aborted."""
        offset, phase = self.next_offset, self.next_offset % 10
        body = record(f"k{offset % 5}".encode(), b"v" * 400)
        batch = _batch(offset, 0, body)
        if not self.is_compacted and phase in (3, 4, 5):
            is_marker = phase == 5
            body = record(struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0)) if is_marker else body
            batch = _batch(offset, 0x30 if is_marker else 0x10, body, PRODUCER_ID)
        with self._path(self._active, ".log").open("ab", buffering=0) as log:
            log.write(batch[: len(batch) // 2])
            yield
            log.write(batch[len(batch) // 2 :])
        self.next_offset += 1
        yield
        if self._unindexed_bytes > INDEX_INTERVAL_BYTES:
            self._write_entry(".index", 8 * self._n_entries, (offset - self._active, self._size))
            self._n_entries += 1
            yield
            yield from self._append_time(offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += len(batch)
        self._last_batch_bytes = len(batch)
        self._size += len(batch)
        if batch[22] & 0x30 == 0x30:
            with self._path(self._active, ".txnindex").open("ab") as index:
                index.write(struct.pack(">hqqqq", 0, PRODUCER_ID, offset - 2, offset, offset + 1))
            yield

    def _write_entry(self, suffix: str, position: int, entry: tuple[int, ...]) -> None:
        with self._path(self._active, suffix).open("r+b") as index:
            index.seek(position)
            index.write(struct.pack(">ii" if len(entry) == 2 else ">qi", *entry))

    def _append_time(self, offset: int) -> Steps:
        entry = struct.pack(">qi", 1_700_000_000_000 + offset, offset - self._active)
        with self._path(self._active, ".timeindex").open("r+b") as index:
            index.seek(12 * self._n_times)
            index.write(entry)
        self._n_times += 1
        yield

    def roll(self) -> Steps:
        """Close the active segment and create the next one."""
        if self.base_offsets:
            if self._unindexed_bytes > self._last_batch_bytes:  # the last batch has no entry
                yield from self._append_time(self.next_offset - 1)
            os.truncate(self._path(self._active, ".index"), 8 * self._n_entries)
            yield
            os.truncate(self._path(self._active, ".timeindex"), 12 * self._n_times)
            yield
        self._path(self.next_offset, ".log").touch()
        yield
        for suffix in (".index", ".timeindex"):
            with self._path(self.next_offset, suffix).open("wb") as index:
                index.truncate(INDEX_BYTES)
            yield
        self.base_offsets.append(self.next_offset)
        self._size = self._unindexed_bytes = self._n_entries = self._n_times = 0
        self._path(self.next_offset, ".snapshot").write_bytes(SNAPSHOT)
        yield

    def _rename(self, base_offset: int, old: str, new: str) -> Steps:
        for suffix in (*SEGMENT_SUFFIXES, ".snapshot") if new == ".deleted" else SEGMENT_SUFFIXES:
            path = self._path(base_offset, suffix + old)
            if path.exists():
                path.rename(self._path(base_offset, suffix + new))
                yield

    def _delete_renamed(self) -> Steps:
        for path in sorted(self.directory.glob("*.deleted")):
            path.unlink()
            yield

    def delete_oldest(self) -> Steps:
        """Delete the oldest segment, as retention does."""
        oldest = self.base_offsets.pop(0)
        yield from self._rename(oldest, "", ".deleted")
        yield from self._delete_renamed()

    def clean(self) -> Steps:
        """Replace the closed segments by one that has the last record of each key."""
        first, *others = self.base_offsets[:-1]
        kept = range(max(first, self._active - 5), self._active)
        with self._path(first, ".log.cleaned").open("wb", buffering=0) as log:
            for offset in kept:
                log.write(_batch(offset, 0, record(f"k{offset % 5}".encode(), b"v" * 400)))
                yield
        self._path(first, ".index.cleaned").write_bytes(b"")
        entry = struct.pack(">qi", 1_700_000_000_000 + kept[-1], kept[-1] - first)
        self._path(first, ".timeindex.cleaned").write_bytes(entry)
        yield
        yield from self._rename(first, ".cleaned", ".swap")
        for base_offset in (first, *others):
            yield from self._rename(base_offset, "", ".deleted")
        yield from self._rename(first, ".swap", "")
        self.base_offsets[:-1] = [first]
        yield from self._delete_renamed()

    def run(self, checkpoint: Callable[[], Steps]) -> Steps:
        """Append, roll and delete or clean for ever."""
        while True:
            yield from self.roll()
            while self._size < SEGMENT_BYTES:
                yield from self.append()
                self.is_at_rest = True
                yield
                self.is_at_rest = False
            if not self.is_compacted:
                yield from checkpoint()
            if len(self.base_offsets) >= self.max_segments:
                yield from self.clean() if self.is_compacted else self.delete_oldest()


class LiveWriter:
    """Writes two partitions of a log directory: `deleted-0` and `compacted-0`."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.partitions = [
            LivePartition(data / f"{name}-0", is_compacted=name == "compacted")
            for name in ("deleted", "compacted")
        ]
        self._steps = [partition.run(self._write_checkpoints) for partition in self.partitions]
        self._lock = Lock()
        self.n_steps = 0

    def step(self) -> None:
        """Perform the next file operation of each partition."""
        for steps in self._steps:
            assert next(steps, True) is None, "the writer has ended"
        self.n_steps += 1

    def rest(self) -> None:
        """Complete what is half done."""
        for partition, steps in zip(self.partitions, self._steps, strict=True):
            while not partition.is_at_rest:
                next(steps)

    def _write_checkpoints(self) -> Steps:
        for name in ("recovery-point-offset", "replication-offset", "log-start-offset"):
            offsets = [
                partition.base_offsets[0] if name == "log-start-offset" else partition.next_offset
                for partition in self.partitions
            ]
            names = (partition.directory.name[:-2] for partition in self.partitions)
            lines = [f"{topic} 0 {offset}\n" for topic, offset in zip(names, offsets, strict=True)]
            path = self.data / f"{name}-checkpoint"
            path.with_name(f"{path.name}.tmp").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
            yield
            path.with_name(f"{path.name}.tmp").rename(path)
            yield

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Perform the next step before each file of the directory is listed, examined or opened."""

        def stepping_first(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
                is_here = isinstance(path, int) or str(path).startswith(str(self.data))
                if is_here and self._lock.acquire(blocking=False):
                    try:
                        self.step()
                    finally:
                        self._lock.release()
                return function(path, *arguments, **options)

            return call

        with (
            mock.patch.object(os, "open", stepping_first(os.open)),
            mock.patch.object(os, "stat", stepping_first(os.stat)),
            mock.patch.object(os, "fstat", stepping_first(os.fstat)),
            mock.patch.object(os, "scandir", stepping_first(os.scandir)),
        ):
            yield
