"""Evidence about a partition's transactions in the files next to its logs.

A transaction index lists the aborted transactions of its segment, with their first offsets; a
producer snapshot has the transactions that were open at its offset. Both outlive a marker that is
damaged in the log. Source: `org.apache.kafka.storage.internals.log.TransactionIndex`,
`ProducerStateManager`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.source import STDIN_PATH
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.directory_listing import classify_file, is_segment_log, list_directory
from kfmt_cli.disk.file_listing import iter_files
from kfmt_cli.disk.kinds.fixed_size_rows import (
    OFFSET_INDEX_KIND,
    PRODUCER_SNAPSHOT_KIND,
    TIME_INDEX_KIND,
    TRANSACTION_INDEX_KIND,
)
from kfmt_cli.disk.kinds.kind import FileContents, FileKind, InputFile
from kfmt_cli.errors import InputError, WrongFileKindError


class AbortedEntry(NamedTuple):
    """An aborted transaction in a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its ABORT marker."""
    last_stable_offset: int


class SnapshotEvidence(NamedTuple):
    """The transactions in a producer snapshot."""

    offset: int
    first_offset_by_producer: Mapping[int, int]
    """The first offset of each producer's open transaction, negative without one."""


@dataclass(slots=True)
class TransactionEvidence:
    """Evidence about a partition's transactions in transaction indexes and producer snapshots."""

    entries: list[AbortedEntry] = field(default_factory=list)
    """In order of their markers."""
    indexed_ranges: list[tuple[int, int]] = field(default_factory=list)
    """The offsets of the segments whose aborted transactions are all known: from, up to; sorted."""
    snapshots: list[SnapshotEvidence] = field(default_factory=list)
    """In order of their offsets."""
    _entries_by_producer: dict[int, list[AbortedEntry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.entries.sort(key=attrgetter("last_offset"))
        self.snapshots.sort(key=attrgetter("offset"))
        for entry in self.entries:
            self._entries_by_producer.setdefault(entry.producer_id, []).append(entry)

    def find_abort(
        self, producer_id: int, first_offset: int, last_offset: int
    ) -> AbortedEntry | None:
        """The first aborted transaction of a producer whose marker is in a range of offsets."""
        entries = self._entries_by_producer.get(producer_id, [])
        index = bisect_left(entries, first_offset, key=attrgetter("last_offset"))
        if index < len(entries) and entries[index].last_offset <= last_offset:
            return entries[index]
        return None

    def has_all_aborts(self, first_offset: int, last_offset: int) -> bool:
        """Whether indexes list each aborted transaction whose marker is in a range of offsets."""
        next_offset = first_offset
        for start, end in self.indexed_ranges:
            if start <= next_offset < end:
                next_offset = end
        return next_offset > last_offset

    def was_open_last(self, producer_id: int, first_offset: int) -> bool | None:
        """Whether a transaction was open at the newest snapshot; None if that is older."""
        if not self.snapshots or self.snapshots[-1].offset <= first_offset:
            return None
        open_first_offset = self.snapshots[-1].first_offset_by_producer.get(producer_id, -1)
        return 0 <= open_first_offset <= first_offset

    def was_open(
        self, producer_id: int, offsets: tuple[int, int], after_offset: int, next_offset: int
    ) -> bool | None:
        """Whether a transaction was still open after a gap; None if no file shows it.

        offsets: its first and last offset before the gap. after_offset: the gap's last offset.
        next_offset: the offset of the producer's next batch or marker, before which files must
        have been written to count.
        """
        first_offset, last_offset = offsets
        next_abort = self.find_abort(producer_id, next_offset, MAX_OFFSET)
        if next_abort is not None and next_abort.first_offset <= next_offset:
            return next_abort.first_offset <= last_offset
        index = bisect_right(self.snapshots, after_offset, key=attrgetter("offset"))
        if index < len(self.snapshots) and self.snapshots[index].offset <= next_offset:
            open_first_offset = self.snapshots[index].first_offset_by_producer.get(producer_id, -1)
            return 0 <= open_first_offset <= first_offset
        index = bisect_right(self.entries, after_offset, key=attrgetter("last_offset"))
        end = bisect_left(self.entries, next_offset, key=attrgetter("last_offset"))
        for entry in self.entries[index:end]:
            if entry.last_stable_offset > first_offset:
                return False
            if entry.last_stable_offset == first_offset:
                return True
        return None


def read_transaction_evidence(logs: Sequence[InputFile]) -> TransactionEvidence:
    """The evidence in the files next to the logs of a partition; raises InputError if their
    directory cannot be listed or a file cannot be read. Damaged files are ignored."""
    paths = (log.path for log in logs if log.path != STDIN_PATH)
    directories = dict.fromkeys(path.rpartition("/")[0] or "." for path in paths)
    return read_evidence_in_files(*(list(_iter_files_in(path)) for path in directories))


def read_evidence_in_files(*files_by_directory: Sequence[InputFile]) -> TransactionEvidence:
    """As `read_transaction_evidence`, from the files of each directory with the partition's
    logs."""
    entries: list[AbortedEntry] = []
    indexed_ranges: list[tuple[int, int]] = []
    snapshots: list[SnapshotEvidence] = []
    for files in files_by_directory:
        for start, end, index_entries in _iter_segment_entries(files):
            entries += index_entries
            indexed_ranges.append((start, end))
        snapshots += _iter_snapshots(files)
    return TransactionEvidence(entries, sorted(indexed_ranges), snapshots)


def _iter_files_in(directory: str) -> Iterator[InputFile]:
    """The files in a directory on a disk or in a store; raises InputError."""
    if is_local(directory):
        listing = list_directory(directory)
        yield from map(listing.input_file, listing.regular_files)
        return
    for file in iter_files(directory):
        if file.path == directory and file.error:
            raise InputError(f"{file.path}: {file.error}")
        if file.path.rpartition("/")[0] == directory:
            yield classify_file(file.path, file.path)


def _iter_segment_entries(
    files: Sequence[InputFile],
) -> Iterator[tuple[int, int, list[AbortedEntry]]]:
    """The aborted transactions of each segment whose index is whole, with the segment's offsets.

    A broker creates an index with its first entry: a segment without one has none, if the other
    files of the segment show that it was copied with them.
    """
    file_by_kind_by_base: dict[int, dict[FileKind, InputFile]] = defaultdict(dict)
    for file in files:
        if file.base_offset is not None:
            file_by_kind_by_base[file.base_offset].setdefault(file.kind, file)
    bases = sorted({file.base_offset_or_zero for file in files if is_segment_log(file)})
    for start, end in pairwise([*bases, MAX_OFFSET]):
        file_by_kind = file_by_kind_by_base[start]
        index = file_by_kind.get(TRANSACTION_INDEX_KIND)
        if index is None:
            if file_by_kind.keys() & {OFFSET_INDEX_KIND, TIME_INDEX_KIND}:
                yield start, end, []
            continue
        contents = _read_undamaged(index)
        if contents is None:
            continue
        columns = (contents.table[name].tolist() for name in AbortedEntry._fields)
        entries = [AbortedEntry(*values) for values in zip(*columns, strict=True)]
        if all(start <= entry.last_offset < end for entry in entries):
            yield start, end, entries


def _iter_snapshots(files: Sequence[InputFile]) -> Iterator[SnapshotEvidence]:
    for file in files:
        if file.kind is PRODUCER_SNAPSHOT_KIND and file.base_offset is not None:
            contents = _read_undamaged(file)
            if contents is not None:
                producers = contents.table
                first_offsets = zip(
                    producers.producer_id.tolist(),
                    producers.current_txn_first_offset.tolist(),
                    strict=True,
                )
                yield SnapshotEvidence(file.base_offset, dict(first_offsets))


def _read_undamaged(file: InputFile) -> FileContents | None:
    """The contents of a file; None if it is damaged."""
    try:
        contents = file.read_contents()
    except WrongFileKindError:
        return None
    return None if contents.findings else contents
