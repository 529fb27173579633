"""Rows that tasks store for the driver or for other tasks: files of Arrow batches, which are read
by index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from kfmt_cli.arrow.export.atomic_files import open_atomic, read_file_bytes
from kfmt_cli.arrow.split_blocks import read_split_blocks
from kfmt_cli.arrow.split_checks import encode_findings
from kfmt_cli.core.regular_files import regular_file
from kfmt_cli.core.urls import is_local, strip_file_scheme
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit, name_file_in_errors
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.log.block import Block

_LZ4_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def write_intermediate_file(
    request: ReadRequest,
    splits: Sequence[FileSplit],
    output_directory: str,
    file_name: str,
    schema: pa.Schema,
    create_batches: Callable[[FileSplit, Iterable[Block]], Iterator[pa.RecordBatch]],
) -> list[dict[str, Any]]:
    """Write rows of splits to a file that appears when it is complete; raises OutputError,
    SplitError.

    Returns a result per split: the range of the file's Arrow batches with its rows, and its
    findings. output_directory, file_name: the directory, and the name of the file in it.
    create_batches: creates the rows from the blocks of a split.
    """
    split_results: list[dict[str, Any]] = []
    n_batches = 0
    with (
        open_atomic(f"{output_directory}/{file_name}") as out,
        pa.ipc.new_file(out, schema, options=_LZ4_OPTIONS) as writer,
    ):
        for split, reader, blocks in read_split_blocks(request, splits):
            first_batch, n_rows = n_batches, 0
            with name_file_in_errors(split):
                for batch in create_batches(split, blocks):
                    writer.write(batch)
                    n_batches += 1
                    n_rows += len(batch)
            encoded_findings = encode_findings(reader.findings, reader.boundary)
            row_location = {
                "file": file_name,
                "first": first_batch,
                "end": n_batches,
                "rows": n_rows,
            }
            split_results.append({**row_location, **encoded_findings})
    split_results[0]["outputs"] = [file_name]
    return split_results


def read_intermediate_batches(
    path: str, first_batch: int, end_batch: int
) -> Iterator[pa.RecordBatch]:
    """The Arrow batches first_batch..end_batch-1 of a file; raises InputError."""
    if first_batch < end_batch:
        arrow_reader = _open_arrow_file(path)
        for batch_index in range(first_batch, end_batch):
            yield arrow_reader.get_batch(batch_index)


@lru_cache(maxsize=8)
def _open_arrow_file(path: str) -> pa.ipc.RecordBatchFileReader:
    if is_local(path):
        local_path = strip_file_scheme(path)
        try:
            with regular_file(local_path, follow_links=False):  # refuses anything else
                # Unlike Python's files, Arrow's are closed in silence when the cache drops them.
                return pa.ipc.open_file(pa.OSFile(local_path))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
    file_bytes = read_file_bytes(path)
    if file_bytes is None:
        raise InputError(f"{path}: not found")
    return pa.ipc.open_file(pa.BufferReader(file_bytes))
