"""Many small logs read as one: their bytes joined, walked and decoded in single calls.

This costs a few microseconds per file. A file that does not consist of batches from its first byte
to its last is invalid here, and must be read by itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import scan
from kfmt_cli.core.parallel import MAX_CONNECTIONS, MAX_SMALL_FILE_BYTES, map_ordered
from kfmt_cli.core.table import BoolArray
from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.disk.file_access import is_remote_path, open_file_descriptor, open_source
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, read_batches
from kfmt_cli.log.damage.batch_candidates import BYTES_UP_TO_MAGIC, MIN_LENGTH_BY_MAGIC
from kfmt_cli.rows.log_tables import BatchTable

_REACHED_END = scan.WALK_STOP_REASONS["END"]


@dataclass(slots=True)
class SmallLogs:
    """Small logs with their bytes joined."""

    files: Sequence[InputFile]
    data: bytes
    sizes: IntArray
    """The size of each file in bytes."""
    batches: BatchTable
    """The batches of all files; positions count in each file, numbers across all files."""
    file_of_batch: IntArray
    """Each batch's file."""
    is_valid: BoolArray
    """Which files have had no findings so far."""

    def mark_files_invalid(self, findings: Iterable[Finding]) -> None:
        """Mark the files of these findings as invalid."""
        for finding in findings:
            if finding.batch is None:  # its file is not known
                self.is_valid[:] = False
            else:
                self.is_valid[self.file_of_batch[finding.batch]] = False

    def valid_block(self) -> Block:
        """The batches of the valid files."""
        return Block("", self.data, 0, self.batches.select_rows(self.is_valid[self.file_of_batch]))

    def iter_batch_ranges(self) -> Iterator[tuple[int, int]]:
        """The first batch of each file, and the one after its last."""
        batch_counts = np.bincount(self.file_of_batch, minlength=len(self.files))
        end_indexes = np.cumsum(batch_counts)
        return zip((end_indexes - batch_counts).tolist(), end_indexes.tolist(), strict=True)

    def file_block(self, file_index: int) -> Block:
        """The batches of a valid file as a block of its own."""
        first_index, end_index = np.searchsorted(self.file_of_batch, [file_index, file_index + 1])
        batches = self.batches.select_rows(slice(first_index, end_index))
        batches.number -= first_index
        return Block(self.files[file_index].name, self.data, 0, batches)


def can_read_in_group(file: InputFile) -> bool:
    """Whether a file, if small, may be read together with others: a log that is not a pipe, which
    can be opened only once."""
    return file.kind is LOG_KIND and not (file.may_be_link and Path(file.path).is_fifo())


def read_small_logs(files: Sequence[InputFile], check_crcs: bool = True) -> SmallLogs:
    """Read small logs. check_crcs: False to trust every checksum."""
    n_connections = MAX_CONNECTIONS if any(is_remote_path(file.path) for file in files) else 0
    file_contents = list(map_ordered(read_file_if_small, files, n_connections))
    data = b"".join(file_content or b"" for file_content in file_contents)
    sizes = np.array([len(file_content or b"") for file_content in file_contents], np.int64)
    ends = np.cumsum(sizes)
    file_regions = np.zeros((4, len(files)), np.int64)
    file_regions[0], file_regions[1] = ends - sizes, ends
    walk_buffer = np.empty((3, len(data) // BYTES_UP_TO_MAGIC + 1), np.int64)
    n_batches = scan.walk_batches(data, file_regions, MIN_LENGTH_BY_MAGIC, walk_buffer)
    batch_starts, ends, file_of_batch = walk_buffer[:, :n_batches].copy()
    is_valid = (file_regions[3] == _REACHED_END) & np.array(
        [file_content is not None for file_content in file_contents]
    )
    batches = read_batches(data, 0, 0, batch_starts, ends, check_crcs)
    batches.position -= file_regions[0][file_of_batch]
    return SmallLogs(files, data, sizes, batches, file_of_batch, is_valid)


def read_file_if_small(file: InputFile) -> bytes | None:
    """A small file's bytes; None if it is not small or cannot be read."""
    if is_remote_path(file.path):
        return _read_remote_file_if_small(file)
    try:
        file_descriptor = open_file_descriptor(file.path)
    except OSError:
        return None
    try:
        file_status = os.fstat(file_descriptor)
        if not stat.S_ISREG(file_status.st_mode) or file_status.st_size > MAX_SMALL_FILE_BYTES:
            return None
        data = os.pread(file_descriptor, file_status.st_size + 1, 0)
        READ_THROTTLE.report_read(len(data))
        READ_THROTTLE.drop_from_page_cache(file_descriptor)
        return data if len(data) == file_status.st_size else None
    except OSError:
        return None
    finally:
        os.close(file_descriptor)


def _read_remote_file_if_small(file: InputFile) -> bytes | None:
    """`read_file_if_small` for a remote file."""
    try:
        with closing(open_source(file.path, file.name)) as source:
            size = source.size
            data = (
                b""
                if size is None or size > MAX_SMALL_FILE_BYTES
                else source.read_block(0, size, size)
            )
    except InputError:
        return None
    return data if len(data) == size else None
