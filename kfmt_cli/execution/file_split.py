"""Splits of files, the units in which work is distributed.

Large logs are split at nominal bytes. The reader of a split finds where the nearest batch begins,
by the same rule on both sides of each boundary (`execution/bounds.py`), so that planning opens no
file. Small files are grouped, because starting a worker costs more than reading them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from kfmt_cli.core.parallel import group_by_cost
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.kinds.kind import FileKind
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND, LOG_KIND
from kfmt_cli.errors import KfmtError
from kfmt_cli.topics import CLUSTER_METADATA

MIB = 1 << 20
_UNSAFE_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
FILE_OPEN_COST_BYTES = MIB // 8  # cost of opening a file, in bytes that could be read meanwhile


@dataclass(slots=True, unsafe_hash=True)
class FileSplit:
    """A part of a file; never modified. If frozen, it would take six times as long to create."""

    path: str
    kind: FileKind
    base_offset: int | None
    file_size: int
    """The size of the file as planned."""
    modified_ns: int
    """Modification time of the file as planned."""
    start: int
    """First byte; the split owns the batches that begin in [start, end)."""
    end: int
    """Exclusive end; batches that begin here belong to the next split."""
    read_error: str | None = None
    """Why the file or directory in `path` cannot be read; None if it can."""
    is_batch_aligned: bool = False
    """Whether start and end are batch boundaries."""
    is_tiered: bool = False
    """Whether the file contains the chunks of a log, according to a manifest next to it."""
    object_size: int = 0
    """Bytes of the chunks."""
    topic_id_partition: tuple[str, int, str] | None = None
    """Topic, partition and topic id from the manifest."""
    encoded_chunking: bytes = b""
    """The chunks according to the manifest, encoded; empty if the manifest has to be read."""
    offset_intervals: tuple[tuple[int, int], ...] = ()
    """The offsets that are read of the file, as other replicas have the others; empty for all."""

    @property
    def base_offset_or_zero(self) -> int:
        """The base offset of its file; 0 for a file without one."""
        return self.base_offset or 0

    def with_byte_range(self, start_byte: int, end_byte: int) -> FileSplit:
        """The split of the file between these bytes."""
        return replace(self, start=start_byte, end=end_byte)

    @property
    def is_last_in_file(self) -> bool:
        """Whether it extends to the end of the file."""
        return self.end >= self.file_size

    @property
    def is_entire_file(self) -> bool:
        """Whether it is the entire file."""
        return self.start == 0 and self.is_last_in_file

    @property
    def directory(self) -> str:
        """The directory of the file."""
        return self.path.rpartition("/")[0]

    @property
    def topic_partition(self) -> tuple[str | None, int | None]:
        """Topic and partition."""
        if self.kind is KRAFT_SNAPSHOT_KIND:
            return CLUSTER_METADATA, 0
        if self.topic_id_partition is not None:
            return self.topic_id_partition[:2]
        return file_topic_partition(self.path)


def compute_split_points(file: FileSplit, max_bytes: int) -> Sequence[int]:
    """The positions where the splits of a file begin, and the end of the last one, in bytes. Only
    logs larger than `max_bytes` are split."""
    n_splits = -(-file.file_size // max_bytes) if file.kind is LOG_KIND else 1
    if n_splits <= 1:
        return file.start, file.end
    return *range(0, file.file_size, -(-file.file_size // n_splits)), file.file_size


def split_files(files: Iterable[FileSplit], max_bytes: int) -> Iterator[FileSplit]:
    """Split logs larger than `max_bytes`; other files stay whole."""
    for file in files:
        for start_byte, end_byte in pairwise(compute_split_points(file, max_bytes)):
            yield file.with_byte_range(start_byte, end_byte)


def group_splits(
    splits: Iterable[FileSplit], max_bytes: int, open_cost_bytes: int = FILE_OPEN_COST_BYTES
) -> Iterator[list[FileSplit]]:
    """Group splits into tasks of about `max_bytes` bytes. open_cost_bytes: extra cost per split, in
    bytes."""
    return group_by_cost(splits, max_bytes, lambda split: split.end - split.start + open_cost_bytes)


def format_split_name(path: str, start_byte: int) -> str:
    """A name for the output of a split: the segment name, its start and a hash of its path."""
    segment_name = _UNSAFE_NAME_CHARACTER.sub("_", path.rpartition("/")[2].partition(".")[0][:60])
    from hashlib import blake2b

    path_hash = blake2b(os.fsencode(path), digest_size=6).hexdigest()
    return f"{segment_name}-{start_byte:012}-{path_hash}"


class SplitError(KfmtError):
    """A task could not continue with a file."""


@contextmanager
def name_file_in_errors(split: FileSplit) -> Iterator[None]:
    """Turn errors that may not name the file into a SplitError that does."""
    try:
        yield
    except KfmtError:
        raise
    except Exception as error:
        start_text = f" from byte {split.start}" if split.start else ""
        raise SplitError(f"{split.path}{start_text}: {type(error).__name__}: {error}") from error
