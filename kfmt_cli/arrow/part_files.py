"""Rows that tasks keep for the driver or for other tasks: files of Arrow batches, each found by its
number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from kfmt_cli.arrow.checking import results_of
from kfmt_cli.arrow.export.output import appearing, read_whole
from kfmt_cli.arrow.piece_blocks import blocks_of
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from kfmt_cli.sharing.piece import Piece, telling
from kfmt_cli.sharing.request import Request

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


def keep_rows(
    request: Request,
    pieces: Sequence[Piece],
    to: str,
    name: str,
    schema: pa.Schema,
    rows_in: Callable[[Piece, Iterable[Block]], Iterator[pa.RecordBatch]],
) -> list[dict[str, Any]]:
    """Write rows of pieces to a file, which appears when it is complete; raises OutputError,
    WorkError. The results say which batches of the file have the rows of a piece.

    to, name: a directory, and the file in it. rows_in: makes the rows from the blocks of a piece.
    """
    results: list[dict[str, Any]] = []
    n = 0
    with appearing(f"{to}/{name}") as out, pa.ipc.new_file(out, schema, options=_LZ4) as writer:
        for piece, reader, blocks in blocks_of(request, pieces):
            first, n_rows = n, 0
            with telling(piece):
                for batch in rows_in(piece, blocks):
                    writer.write(batch)
                    n += 1
                    n_rows += len(batch)
            found = results_of(reader.findings, reader.edges)
            place = {"file": name, "first": first, "end": n, "rows": n_rows}
            results.append({**place, **found})
    results[0]["outputs"] = [name]
    return results


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
