"""Stores many splits as columns.

A plan has a split for each of several hundred thousand files. As objects they would take a kilobyte
each; as columns they take about a hundred bytes per file and twenty per split.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

from kfmt_cli.disk.kinds.kind import FileKind
from kfmt_cli.execution.file_split import FileSplit

_MAX_TIME_NS = 1 << 63  # times after the year 2262 wrap; they are only compared


class _ByteStringPool:
    """Byte strings, concatenated."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._end_positions = array("Q", [0])

    def __len__(self) -> int:
        return len(self._end_positions) - 1

    def append_string(self, byte_string: bytes) -> None:
        self._bytes += byte_string
        self._end_positions.append(len(self._bytes))

    def string_length(self, string_index: int) -> int:
        return self._end_positions[string_index + 1] - self._end_positions[string_index]

    def __getitem__(self, string_index: int) -> bytes:
        return bytes(
            self._bytes[self._end_positions[string_index] : self._end_positions[string_index + 1]]
        )


class _SplitFileColumns:
    """Values shared by all splits of a file; consecutive files share a directory."""

    def __init__(self) -> None:
        self._directories, self._file_names = _ByteStringPool(), _ByteStringPool()
        self._kind_keys: list[tuple[FileKind, bool, bool]] = []
        """Kind, whether there is a base offset, whether it is tiered."""
        self._topic_id_partitions: list[tuple[str, int, str] | None] = [None]
        self._read_error_by_index: dict[int, str] = {}
        self._offset_intervals_by_index: dict[int, tuple[tuple[int, int], ...]] = {}
        self._directory_indexes, self._partition_indexes = array("I"), array("I")
        self._kind_indexes = array("B")
        self._base_offsets, self._sizes, self._modified_times = array("q"), array("q"), array("q")
        self._object_sizes = array("q")
        self._chunkings = _ByteStringPool()
        self._chunkings.append_string(b"")
        self._chunking_index = array("I")
        self._last_directory: str | None = None
        self._cached_directory = -1, ""

    def __len__(self) -> int:
        return len(self._sizes)

    def add_file(self, split: FileSplit) -> None:
        name_start = split.path.rfind("/") + 1
        directory = split.path[:name_start]
        if directory != self._last_directory:
            self._directories.append_string(os.fsencode(directory))
            self._last_directory = directory
        kind_key = split.kind, split.base_offset is not None, split.is_tiered
        if kind_key not in self._kind_keys:
            self._kind_keys.append(kind_key)
        if split.topic_id_partition != self._topic_id_partitions[-1]:
            self._topic_id_partitions.append(split.topic_id_partition)
        if split.read_error is not None:
            self._read_error_by_index[len(self)] = split.read_error
        if split.offset_intervals:
            self._offset_intervals_by_index[len(self)] = split.offset_intervals
        if split.encoded_chunking:
            self._chunkings.append_string(split.encoded_chunking)
        self._chunking_index.append(len(self._chunkings) - 1 if split.encoded_chunking else 0)
        self._file_names.append_string(os.fsencode(split.path[name_start:]))
        self._directory_indexes.append(len(self._directories) - 1)
        self._partition_indexes.append(len(self._topic_id_partitions) - 1)
        self._kind_indexes.append(self._kind_keys.index(kind_key))
        self._base_offsets.append(split.base_offset_or_zero)
        self._modified_times.append(
            (split.modified_ns + _MAX_TIME_NS) % (2 * _MAX_TIME_NS) - _MAX_TIME_NS
        )
        self._object_sizes.append(split.object_size)
        self._sizes.append(split.file_size)

    def file_path(self, file_index: int) -> str:
        directory_index, cached_directory = (
            self._directory_indexes[file_index],
            self._cached_directory,
        )
        if cached_directory[0] != directory_index:
            cached_directory = self._cached_directory = (
                directory_index,
                os.fsdecode(self._directories[directory_index]),
            )
        return cached_directory[1] + os.fsdecode(self._file_names[file_index])

    def base_offset(self, file_index: int) -> int:
        return self._base_offsets[file_index]

    def partition_key(self, file_index: int) -> tuple[int, ...]:
        """A key that determines the topic-partition, which may have several keys. The length of the
        name distinguishes broker files from tiered ones."""
        return (
            self._directory_indexes[file_index],
            self._partition_indexes[file_index],
            self._kind_indexes[file_index],
            self._file_names.string_length(file_index),
        )

    def create_split(
        self, file_index: int, start_byte: int, end_byte: int, is_batch_aligned: bool
    ) -> FileSplit:
        kind, has_base_offset, is_tiered = self._kind_keys[self._kind_indexes[file_index]]
        return FileSplit(
            self.file_path(file_index),
            kind,
            self._base_offsets[file_index] if has_base_offset else None,
            self._sizes[file_index],
            self._modified_times[file_index],
            start_byte,
            end_byte,
            self._read_error_by_index.get(file_index),
            is_batch_aligned,
            is_tiered,
            self._object_sizes[file_index],
            self._topic_id_partitions[self._partition_indexes[file_index]],
            self._chunkings[self._chunking_index[file_index]],
            self._offset_intervals_by_index.get(file_index, ()),
        )


class FileSplits(Sequence[FileSplit]):
    """An immutable sequence of splits; sequences derived from it share its file columns."""

    __slots__ = ("_are_batch_aligned", "_ends", "_file_columns", "_file_indexes", "_starts")

    def __init__(self, splits: Iterable[FileSplit] = ()) -> None:
        self._file_columns = _SplitFileColumns()
        self._file_indexes, self._are_batch_aligned = array("I"), array("B")
        self._starts, self._ends = array("q"), array("q")
        previous_file_key: tuple[str, int, int] | None = None
        for split in splits:
            file_key = split.path, split.file_size, split.modified_ns
            if file_key != previous_file_key:
                self._file_columns.add_file(split)
                previous_file_key = file_key
            self._append_split(
                len(self._file_columns) - 1, split.start, split.end, split.is_batch_aligned
            )

    def _append_split(
        self, file_index: int, start_byte: int, end_byte: int, is_batch_aligned: bool
    ) -> None:
        self._file_indexes.append(file_index)
        self._starts.append(start_byte)
        self._ends.append(end_byte)
        self._are_batch_aligned.append(is_batch_aligned)

    def __reduce__(self) -> tuple[Callable[..., FileSplits], tuple[object, ...]]:
        """Pickle only the files of these splits."""
        repacked_splits = FileSplits(self)
        columns = (
            repacked_splits._file_columns,
            repacked_splits._file_indexes,
            repacked_splits._starts,
            repacked_splits._ends,
            repacked_splits._are_batch_aligned,
        )
        return _create_from_columns, columns

    def __len__(self) -> int:
        return len(self._file_indexes)

    @overload
    def __getitem__(self, index: int) -> FileSplit: ...
    @overload
    def __getitem__(self, index: slice) -> FileSplits: ...
    def __getitem__(self, index: int | slice) -> FileSplit | FileSplits:
        if isinstance(index, slice):
            columns = (
                self._file_indexes[index],
                self._starts[index],
                self._ends[index],
                self._are_batch_aligned[index],
            )
            return _create_from_columns(self._file_columns, *columns)
        is_batch_aligned = bool(self._are_batch_aligned[index])
        return self._file_columns.create_split(
            self._file_indexes[index], self._starts[index], self._ends[index], is_batch_aligned
        )

    def __iter__(self) -> Iterator[FileSplit]:
        columns = zip(
            self._file_indexes, self._starts, self._ends, self._are_batch_aligned, strict=True
        )
        create_split = self._file_columns.create_split
        return (
            create_split(file_index, start_byte, end_byte, alignment_flag > 0)
            for file_index, start_byte, end_byte, alignment_flag in columns
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FileSplits({list(self)!r})"

    @property
    def n_bytes(self) -> int:
        """Bytes of all splits."""
        return sum(self._ends) - sum(self._starts)

    @property
    def directories(self) -> set[str]:
        """The directories of all splits."""
        return {split.directory for split in self}

    def select_at(self, indexes: Iterable[int]) -> FileSplits:
        """The splits at these indexes, in their order."""
        selected_splits = _create_from_columns(
            self._file_columns, array("I"), array("q"), array("q"), array("B")
        )
        for i in indexes:
            selected_splits._append_split(
                self._file_indexes[i],
                self._starts[i],
                self._ends[i],
                bool(self._are_batch_aligned[i]),
            )
        return selected_splits

    @property
    def readable_splits(self) -> FileSplits:
        """The splits of files without a read error."""
        read_error_by_index = self._file_columns._read_error_by_index
        if not read_error_by_index:
            return self
        return self.select_at(
            i
            for i, file_index in enumerate(self._file_indexes)
            if file_index not in read_error_by_index
        )

    @property
    def read_errors(self) -> dict[str, str]:
        """The reasons why files could not be read, by path."""
        file_columns, read_error_by_index = (
            self._file_columns,
            self._file_columns._read_error_by_index,
        )
        return {
            file_columns.file_path(file_index): read_error_by_index[file_index]
            for file_index in self._file_indexes
            if file_index in read_error_by_index
        }

    def select_where(self, predicate: Callable[[FileSplit], bool]) -> FileSplits:
        """The splits for which `predicate` is true."""
        return self.select_at(i for i, split in enumerate(self) if predicate(split))

    def sorted_unique(self) -> FileSplits:
        """The splits sorted by topic, partition and base offset, each file once."""
        indexes_by_column_key: dict[tuple[int, ...], array[int]] = {}
        for i, file_index in enumerate(self._file_indexes):
            indexes_by_column_key.setdefault(
                self._file_columns.partition_key(file_index), array("I")
            ).append(i)
        indexes_by_partition: dict[tuple[str, int], array[int]] = {}
        for split_indexes in indexes_by_column_key.values():
            split = self[split_indexes[0]]
            topic, partition = split.topic_partition
            partition_key = topic or split.directory, partition or 0
            indexes_by_partition.setdefault(partition_key, array("I")).extend(split_indexes)
        ordered_indexes = array("I")
        for partition_key in sorted(indexes_by_partition):
            index_by_sort_key = {self._sort_key(i): i for i in indexes_by_partition[partition_key]}
            ordered_indexes.extend(
                index_by_sort_key[sort_key] for sort_key in sorted(index_by_sort_key)
            )
        return self.select_at(ordered_indexes)

    def _sort_key(self, split_index: int) -> tuple[int, str]:
        return self._file_columns.base_offset(
            self._file_indexes[split_index]
        ), self._file_columns.file_path(self._file_indexes[split_index])

    def divide_splits(self, find_split_points: Callable[[FileSplit], Sequence[int]]) -> FileSplits:
        """These splits, divided. find_split_points: returns the positions where the parts of a
        split begin, and its end."""
        divided_splits = self.select_at(())
        for file_index, split in zip(self._file_indexes, self, strict=True):
            for start_byte, end_byte in pairwise(find_split_points(split)):
                divided_splits._append_split(file_index, start_byte, end_byte, False)
        return divided_splits

    def iter_groups(self, groups: Iterable[Sequence[FileSplit]]) -> Iterator[FileSplits]:
        """These splits in groups, as columns. groups: the same splits, in the same order."""
        start_index = 0
        for group in groups:
            yield self[start_index : start_index + len(group)]
            start_index += len(group)


def _create_from_columns(
    file_columns: _SplitFileColumns,
    file_indexes: array[int],
    starts: array[int],
    ends: array[int],
    are_batch_aligned: array[int],
) -> FileSplits:
    splits = FileSplits()
    splits._file_columns = file_columns
    splits._file_indexes = file_indexes
    splits._starts = starts
    splits._ends = ends
    splits._are_batch_aligned = are_batch_aligned
    return splits
