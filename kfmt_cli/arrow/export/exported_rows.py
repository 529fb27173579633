"""The tables that an export has written, read back: Parquet files of records or batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfmt_cli.arrow.checking import results_of
from kfmt_cli.arrow.columns.schema import schema_of
from kfmt_cli.arrow.export.output import names_in
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.disk.kinds import UNKNOWN
from kfmt_cli.disk.listings import listing
from kfmt_cli.disk.opening import file_at
from kfmt_cli.errors import InputError
from kfmt_cli.findings.damage import FILE_UNREADABLE
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.table_types import BATCHES, RECORDS, chosen
from kfmt_cli.sharing.piece import Piece

SUFFIX = ".parquet"
MOST_ROWS = 32768
_PLACE = ("topic", "partition")
BATCHES_ONLY = "last_offset_delta"  # a column


def exported_pieces(path: str, table: str = RECORDS.name) -> list[Piece] | None:
    """The files of a table in an export's directory, or in the table's own, or the file itself;
    None if the path is none of these. Raises InputError."""
    is_named = path.endswith(SUFFIX)
    if not is_named:
        names = names_in(path)
        if table in names and not any(name.endswith(SUFFIX) for name in names):
            path = f"{path.rstrip('/')}/{table}"
        elif not any(name.endswith(SUFFIX) or name.startswith("by_") for name in names):
            return None
    return [
        Piece(file.path, UNKNOWN, None, file.size, file.modified, 0, file.size)
        for file in listing(path)
        if is_named or file.path.endswith(SUFFIX)
    ]


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


@dataclass(frozen=True, slots=True)
class FileOfPartition:
    """A file with rows of a partition. size, modified: by which a later run knows it."""

    path: str
    size: int
    modified: int
    span: Span


def spans_in(path: str) -> tuple[str, list[Span]]:
    """The table that a file is of, records or batches, and the partitions with rows in it; raises
    InputError."""
    found: dict[tuple[str | None, int | None], Span] = {}
    with _opened(path) as file:
        is_batches = BATCHES_ONLY in file.schema_arrow.names
        column = "last_offset" if is_batches else "offset"
        _check(file, path, (*_PLACE, column))
        for i in range(file.num_row_groups):
            for span in _spans_in(file, i, column):
                place = span.topic, span.partition
                known = found.get(place, span)
                rows = span.rows + (known.rows if place in found else 0)
                first, last = min(known.first, span.first), max(known.last, span.last)
                found[place] = Span(*place, rows, first, last)
    spans = sorted(found.values(), key=lambda span: (span.topic or "", span.partition or 0))
    return (BATCHES if is_batches else RECORDS).name, spans


def spans_kept(piece: Piece, is_wanted: Callable[[str | None], bool]) -> dict[str, Any]:
    """The partitions of wanted topics with rows in a file, as the result of a piece."""
    table, spans, findings = RECORDS.name, list[Span](), list[Finding]()
    try:
        table, spans = spans_in(piece.path)
    except InputError as error:
        findings.append(Finding(piece.path, FILE_UNREADABLE, None, str(error)))
    spans = [span for span in spans if is_wanted(span.topic)]
    rows, kept = sum(span.rows for span in spans), [astuple(span) for span in spans]
    return {"table": table, "rows": rows, "spans": kept, **results_of(findings, None)}


def _spans_in(file: pq.ParquetFile, i: int, column: str) -> list[Span]:
    """The partitions in a row group: from its statistics if it has only one."""
    topic, partition, offset = (_bounds(file, i, name) for name in (*_PLACE, column))
    rows = file.metadata.row_group(i).num_rows
    if topic and partition and offset and topic[0] == topic[1] and partition[0] == partition[1]:
        return [Span(topic[0], partition[0], rows, *offset)]
    table = file.read_row_group(i, [*_PLACE, column])
    grouped = table.group_by(list(_PLACE)).aggregate(
        [(column, "count"), (column, "min"), (column, "max")]
    )
    names = (*_PLACE, f"{column}_count", f"{column}_min", f"{column}_max")
    columns = [grouped[name].to_pylist() for name in names]
    return [Span(*row) for row in zip(*columns, strict=True) if row[2]]


def _bounds(file: pq.ParquetFile, i: int, name: str) -> tuple[Any, Any] | None:
    """The smallest and largest value of a column in a row group, None if it says neither, or if
    some are null."""
    said = file.metadata.row_group(i).column(file.schema_arrow.get_field_index(name)).statistics
    if said is None or not said.has_min_max or not said.has_null_count or said.null_count:
        return None
    return said.min, said.max


def rows_in(
    path: str,
    place: tuple[str | None, int | None],
    names: tuple[str, ...],
    table: str = RECORDS.name,
    offsets: tuple[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of a partition in a file, with columns in the types of the table; raises InputError.
    offsets: the first and last to read; there may be others."""
    schema = schema_of(chosen(table, names))
    topic, partition = place
    wanted: dict[str, tuple[Any, Any]]
    wanted = {"topic": (topic, topic), "partition": (partition, partition)}
    if offsets is not None:
        wanted["offset"] = offsets
    read = tuple(dict.fromkeys((*_PLACE, *names)))
    with _opened(path) as file:
        _check(file, path, read)
        for i in range(file.num_row_groups):
            if not all(_may_have(file, i, name, *bounds) for name, bounds in wanted.items()):
                continue
            for batch in _row_group(path, file, i, read).to_batches(MOST_ROWS):
                is_topic = _is(batch.column("topic"), topic)
                keep = pc.and_(is_topic, _is(batch.column("partition"), partition))
                rows = batch if pc.all(keep).as_py() else batch.filter(keep)
                if len(rows):
                    columns = [rows.column(field.name).cast(field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _may_have(file: pq.ParquetFile, i: int, name: str, first: Any, last: Any) -> bool:
    """Whether a row group can have a value within bounds, by its statistics."""
    known = _bounds(file, i, name)
    return not known or first is None or (first <= known[1] and known[0] <= last)


_LAST: dict[str, tuple[tuple[object, ...], pa.Table]] = {}


def forget_rows() -> None:
    """Drop what is kept of files, which may have changed since the last task of this process."""
    _LAST.clear()


def _row_group(path: str, file: pq.ParquetFile, i: int, names: tuple[str, ...]) -> pa.Table:
    """A row group. The last one is kept, as small partitions follow one another in it."""
    key = path, i, names
    known = _LAST.get("row group")
    if known is None or known[0] != key:
        known = _LAST["row group"] = key, file.read_row_group(i, list(names))
    return known[1]


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


def offsets_of(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The offsets of rows."""
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = batch.column("offset").to_numpy()
    return found
