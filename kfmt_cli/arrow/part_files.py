"""Rows that tasks keep for the driver or for other tasks: files of Arrow batches, each found by its
number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from kfmt_cli.arrow.checking import results_of
from kfmt_cli.arrow.export.output import appearing, read_whole
from kfmt_cli.arrow.piece_blocks import BlocksRead
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.sharing.read_piece import Edges

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(slots=True)
class PartWriter:
    """A file being written."""

    _writer: pa.RecordBatchFileWriter
    n: int = 0
    """Batches so far: the number of the next one."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        self._writer.write(batch)
        self.n += 1


@dataclass(slots=True)
class KeptRows:
    """Where the rows of a piece are in a file, and what was found."""

    first: int
    """Number of its first Arrow batch."""
    end: int = 0
    """Exclusive end of its Arrow batches."""
    rows: int = 0
    findings: list[Finding] = field(default_factory=list)
    edges: Edges | None = None

    def ended(self, out: PartWriter, read: BlocksRead) -> None:
        """Complete these, once the piece is read and its rows are written."""
        self.end, self.findings, self.edges = out.n, read.findings, read.edges

    def result(self, file: str) -> dict[str, Any]:
        """These as the result of a piece, as JSON."""
        place = {"file": file, "first": self.first, "end": self.end, "rows": self.rows}
        return {**place, "outputs": [], **results_of(self.findings, self.edges)}


@contextmanager
def part_file(path: str, schema: pa.Schema) -> Iterator[PartWriter]:
    """A file that appears, complete, when the block ends; raises OutputError."""
    with appearing(path) as out, pa.ipc.new_file(out, schema, options=_LZ4) as writer:
        yield PartWriter(writer)


def parts_of(path: str, first: int, end: int) -> Iterator[pa.RecordBatch]:
    """The batches first..end-1 of a file; raises InputError."""
    if first < end:
        reader = _opened(path)
        for i in range(first, end):
            yield reader.get_batch(i)


@lru_cache(maxsize=8)
def _opened(path: str) -> pa.ipc.RecordBatchFileReader:
    if is_local(path):
        try:
            return pa.ipc.open_file(pa.memory_map(local(path)))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
    data = read_whole(path)
    if data is None:
        raise InputError(f"{path}: not found")
    return pa.ipc.open_file(pa.BufferReader(data))
