"""The tables that an export has written, read back: Parquet files of records or batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfmt_cli.arrow.output import names_in
from kfmt_cli.arrow.schema import schema_of
from kfmt_cli.core.source import file_at
from kfmt_cli.core.stores import StoredFile, listing
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.disk.kinds import UNKNOWN
from kfmt_cli.errors import InputError
from kfmt_cli.rows.table_types import RECORDS, chosen
from kfmt_cli.sharing.piece import Piece

SUFFIX = ".parquet"
MOST_ROWS = 32768
_PLACE = ("topic", "partition")


def exported_files(path: str, table: str = RECORDS.name) -> list[StoredFile] | None:
    """The files of a table in an export's directory, or in the table's own, or the file itself;
    None if the path is none of these. Raises InputError."""
    if path.endswith(SUFFIX):
        return list(listing(path))
    names = names_in(path)
    if table in names and not any(name.endswith(SUFFIX) for name in names):
        path = f"{path.rstrip('/')}/{table}"
    elif not any(name.endswith(SUFFIX) or name.startswith("by_") for name in names):
        return None
    return [file for file in listing(path) if file.path.endswith(SUFFIX)]


def is_exported(piece: Piece) -> bool:
    """Whether a piece is a file of an exported table."""
    return piece.kind is UNKNOWN and piece.path.endswith(SUFFIX)


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of a partition in a file."""

    topic: str | None
    partition: int | None
    rows: int
    first: int
    """The first offset."""
    last: int


def spans_of(path: str) -> list[Span]:
    """The partitions with records in a file; raises InputError."""
    with _opened(path) as file:
        table = _read(file, path, (*_PLACE, "offset"))
        grouped = table.group_by(list(_PLACE)).aggregate(
            [("offset", "count"), ("offset", "min"), ("offset", "max")]
        )
        names = (*_PLACE, "offset_count", "offset_min", "offset_max")
        columns = [grouped[name].to_pylist() for name in names]
        spans = [Span(*row) for row in zip(*columns, strict=True)]
    return sorted(spans, key=lambda span: (span.topic or "", span.partition or 0))


def rows_in(
    path: str, topic: str | None, partition: int | None, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Columns of the records of a partition in a file, in the types of `RECORDS`; raises
    InputError."""
    schema = schema_of(chosen(RECORDS.name, tuple(names)))
    with _opened(path) as file:
        _check(file, path, (*_PLACE, *names))
        try:
            for batch in file.iter_batches(MOST_ROWS, columns=[*_PLACE, *names]):
                keep = _is(batch.column("topic"), topic)
                keep = pc.and_(keep, _is(batch.column("partition"), partition))
                rows = batch if pc.all(keep).as_py() else batch.filter(keep)
                if len(rows):
                    columns = [rows.column(field.name).cast(field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: {error}") from error


def _is(column: pa.Array, value: object) -> pa.Array:
    if value is None:
        return pc.is_null(column)
    return pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), False)


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    try:
        with file_at(local(path) if is_local(path) else path) as source:
            yield pq.ParquetFile(source)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _check(file: pq.ParquetFile, path: str, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in file.schema_arrow.names]:
        raise InputError(f"{path}: has no column {missing[0]}; export with all columns")


def _read(file: pq.ParquetFile, path: str, names: Sequence[str]) -> pa.Table:
    _check(file, path, names)
    return file.read(list(names))


def offsets_of(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The offsets of rows."""
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = batch.column("offset").to_numpy()
    return found
