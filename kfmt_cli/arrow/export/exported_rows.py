"""Reads the tables that an export has written: Parquet files of records or batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.export.atomic_files import list_file_names
from kfmt_cli.arrow.export.manifest import read_manifest_outputs
from kfmt_cli.arrow.split_checks import encode_findings
from kfmt_cli.core.urls import is_local, path_in_listings, strip_file_scheme
from kfmt_cli.disk.file_access import open_binary
from kfmt_cli.disk.file_listing import iter_files
from kfmt_cli.disk.kinds import UNKNOWN_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.findings.codes import FILE_UNREADABLE
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.table_types import BATCHES_TABLE, RECORDS_TABLE, select_columns

PARQUET_SUFFIX = ".parquet"
MAX_BATCH_ROWS = 32768
_PARTITION_COLUMNS = ("topic", "partition")
BATCHES_ONLY_COLUMN = "last_offset_delta"


def find_exported_files(path: str, table_name: str = RECORDS_TABLE.name) -> list[FileSplit] | None:
    """The files of an exported table; None if the path has none. Raises InputError.

    path: the directory of an export or of the table, or a single file.
    """
    path = path.rstrip("/") or path
    file_names = list_file_names(path)
    if file_names or not path.endswith(PARQUET_SUFFIX):
        has_files = any(name.endswith(PARQUET_SUFFIX) for name in file_names)
        if table_name in file_names and not has_files:
            path = f"{path}/{table_name}"
        elif not has_files and not any(name.startswith("by_") for name in file_names):
            return None
    exported_files = []
    for file in iter_files(path):
        if file.error:  # its rows would be missing
            raise InputError(f"{file.path}: {file.error}")
        if file.path.endswith(PARQUET_SUFFIX) and not _is_hidden(file.path, path):
            exported_files.append(
                FileSplit(file.path, UNKNOWN_KIND, None, file.size, file.modified_ns, 0, file.size)
            )
    return _select_current_files(exported_files, path)


def _is_hidden(file_path: str, root: str) -> bool:
    """Whether a file is no part of a table, as those of Spark's commits and of Delta's log."""
    subpath = file_path.removeprefix(path_in_listings(root))
    return any(name.startswith(("_", ".")) for name in subpath.split("/"))


def _select_current_files(files: list[FileSplit], table_directory: str) -> list[FileSplit]:
    """The files of a table without those that later exports have replaced, which Delta and Iceberg
    keep. All of them, if they have no manifest or are not those that it names."""
    root, _, table_name = path_in_listings(table_directory).rpartition("/")
    current_paths = {
        f"{root}/{file_name}"
        for file_name in read_manifest_outputs(root)
        if file_name.startswith(f"{table_name}/")
    }
    current_files = [file for file in files if file.path in current_paths]
    return current_files if len(current_files) == len(current_paths) > 0 else files


def is_exported_file(split: FileSplit) -> bool:
    """Whether a split is a file of an exported table."""
    return split.kind is UNKNOWN_KIND and split.path.endswith(PARQUET_SUFFIX)


@dataclass(frozen=True, slots=True)
class PartitionRowRange:
    """The rows of a partition in a file."""

    topic: str | None
    partition: int | None
    n_rows: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A file with rows of a partition. file_bytes, modified_ns: identify its version in later
    runs."""

    path: str
    file_bytes: int
    modified_ns: int
    row_range: PartitionRowRange


def read_row_ranges(path: str) -> tuple[str, list[PartitionRowRange]]:
    """The table of a file (records or batches) and the row ranges of its partitions; raises
    InputError."""
    range_by_partition: dict[tuple[str | None, int | None], PartitionRowRange] = {}
    with _open_parquet(path) as parquet_file:
        has_batches = BATCHES_ONLY_COLUMN in parquet_file.schema_arrow.names
        offset_column = "last_offset" if has_batches else "offset"
        table_name = (BATCHES_TABLE if has_batches else RECORDS_TABLE).name
        _require_columns(parquet_file, path, (*_PARTITION_COLUMNS, offset_column), table_name)
        for row_group_index in range(parquet_file.num_row_groups):
            for row_range in _row_group_ranges(parquet_file, row_group_index, offset_column):
                topic_partition = row_range.topic, row_range.partition
                previous_range = range_by_partition.get(topic_partition, row_range)
                n_rows = row_range.n_rows + (
                    previous_range.n_rows if topic_partition in range_by_partition else 0
                )
                first_offset = min(previous_range.first_offset, row_range.first_offset)
                last_offset = max(previous_range.last_offset, row_range.last_offset)
                range_by_partition[topic_partition] = PartitionRowRange(
                    *topic_partition, n_rows, first_offset, last_offset
                )
    row_ranges = sorted(
        range_by_partition.values(), key=lambda rows: (rows.topic or "", rows.partition or 0)
    )
    return table_name, row_ranges


def scan_exported_file(
    split: FileSplit, includes_topic: Callable[[str | None], bool]
) -> dict[str, Any]:
    """The row ranges of the requested topics in a file, as the result of a split."""
    table_name, row_ranges, findings = (
        RECORDS_TABLE.name,
        list[PartitionRowRange](),
        list[Finding](),
    )
    try:
        table_name, row_ranges = read_row_ranges(split.path)
    except InputError as error:
        findings.append(Finding(split.path, FILE_UNREADABLE, None, str(error)))
    row_ranges = [row_range for row_range in row_ranges if includes_topic(row_range.topic)]
    n_rows = sum(row_range.n_rows for row_range in row_ranges)
    range_tuples = [astuple(row_range) for row_range in row_ranges]
    return {
        "table": table_name,
        "rows": n_rows,
        "spans": range_tuples,
        **encode_findings(findings, None),
    }


def _row_group_ranges(
    parquet_file: pq.ParquetFile, row_group_index: int, offset_column: str
) -> list[PartitionRowRange]:
    """The row ranges of a row group: from its statistics if it has only one partition."""
    topic_bounds, partition_bounds, offset_bounds = (
        _statistics_bounds(parquet_file, row_group_index, name)
        for name in (*_PARTITION_COLUMNS, offset_column)
    )
    n_rows = parquet_file.metadata.row_group(row_group_index).num_rows
    if (
        topic_bounds
        and partition_bounds
        and offset_bounds
        and topic_bounds[0] == topic_bounds[1]
        and partition_bounds[0] == partition_bounds[1]
    ):
        return [PartitionRowRange(topic_bounds[0], partition_bounds[0], n_rows, *offset_bounds)]
    row_group_table = _read_valid_columns(
        parquet_file, row_group_index, (*_PARTITION_COLUMNS, offset_column)
    )
    aggregated_table = row_group_table.group_by(list(_PARTITION_COLUMNS)).aggregate(
        [(offset_column, "count"), (offset_column, "min"), (offset_column, "max")]
    )
    column_names = (
        *_PARTITION_COLUMNS,
        f"{offset_column}_count",
        f"{offset_column}_min",
        f"{offset_column}_max",
    )
    columns = [aggregated_table[name].to_pylist() for name in column_names]
    return [
        PartitionRowRange(*aggregated_row)
        for aggregated_row in zip(*columns, strict=True)
        if aggregated_row[2]
    ]


def _statistics_bounds(
    parquet_file: pq.ParquetFile, row_group_index: int, column_name: str
) -> tuple[Any, Any] | None:
    """The minimum and maximum of a column in a row group; None if its statistics lack them, or if
    some values are null. Raises OSError."""
    # PyArrow ends the process at malformed metadata, but not if it reads a value first.
    next(parquet_file.iter_batches(1, [row_group_index], [column_name]), None)
    statistics = (
        parquet_file.metadata.row_group(row_group_index)
        .column(parquet_file.schema_arrow.get_field_index(column_name))
        .statistics
    )
    if (
        statistics is None
        or not statistics.has_min_max
        or not statistics.has_null_count
        or statistics.null_count
    ):
        return None
    return statistics.min, statistics.max


def read_partition_rows(
    path: str,
    topic_partition: tuple[str | None, int | None],
    column_names: tuple[str, ...],
    table_name: str = RECORDS_TABLE.name,
    offset_bounds: tuple[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of a partition in a file, with the column types of the table; raises InputError.

    offset_bounds: the first and last offset to read. Rows outside it may be included.
    """
    schema = arrow_schema(select_columns(table_name, column_names))
    topic, partition = topic_partition
    bounds_by_column: dict[str, tuple[Any, Any]]
    bounds_by_column = {"topic": (topic, topic), "partition": (partition, partition)}
    if offset_bounds is not None:
        bounds_by_column["offset"] = offset_bounds
    columns_to_read = tuple(dict.fromkeys((*_PARTITION_COLUMNS, *column_names)))
    with _open_parquet(path) as parquet_file:
        _require_columns(parquet_file, path, columns_to_read, table_name)
        for row_group_index in range(parquet_file.num_row_groups):
            if not all(
                _may_contain_value(parquet_file, row_group_index, name, *value_bounds)
                for name, value_bounds in bounds_by_column.items()
            ):
                continue
            for batch in _read_row_group(
                path, parquet_file, row_group_index, columns_to_read
            ).to_batches(MAX_BATCH_ROWS):
                topic_mask = _equals_mask(batch.column("topic"), topic)
                partition_mask = pc.and_(
                    topic_mask, _equals_mask(batch.column("partition"), partition)
                )
                rows = batch if pc.all(partition_mask).as_py() else batch.filter(partition_mask)
                if len(rows):
                    result_columns = [rows.column(field.name).cast(field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays(result_columns, schema=schema)


def _may_contain_value(
    parquet_file: pq.ParquetFile,
    row_group_index: int,
    column_name: str,
    min_value: Any,
    max_value: Any,
) -> bool:
    """Whether a row group may have a value within bounds, according to its statistics."""
    statistics_bounds = _statistics_bounds(parquet_file, row_group_index, column_name)
    return (
        not statistics_bounds
        or min_value is None
        or (min_value <= statistics_bounds[1] and statistics_bounds[0] <= max_value)
    )


_ROW_GROUP_CACHE: dict[str, tuple[tuple[object, ...], pa.Table]] = {}


def clear_row_group_cache() -> None:
    """Drop the cached row group, whose file may have changed since this process's last task."""
    _ROW_GROUP_CACHE.clear()


def _read_row_group(
    path: str, parquet_file: pq.ParquetFile, row_group_index: int, column_names: tuple[str, ...]
) -> pa.Table:
    """A row group. The last one is cached, as it may contain several small partitions."""
    cache_key = path, row_group_index, column_names
    cached_entry = _ROW_GROUP_CACHE.get("row group")
    if cached_entry is None or cached_entry[0] != cache_key:
        cached_entry = _ROW_GROUP_CACHE["row group"] = (
            cache_key,
            _read_valid_columns(parquet_file, row_group_index, column_names),
        )
    return cached_entry[1]


def _read_valid_columns(
    parquet_file: pq.ParquetFile, row_group_index: int, column_names: Sequence[str]
) -> pa.Table:
    """Columns of a row group; raises ArrowInvalid for text that is not valid UTF-8."""
    table = parquet_file.read_row_group(row_group_index, list(column_names))
    table.validate(full=True)
    return table


def _equals_mask(column: pa.Array, expected_value: object) -> pa.Array:
    if expected_value is None:
        return pc.is_null(column)
    return pc.fill_null(pc.equal(column, pa.scalar(expected_value, column.type)), False)


@contextmanager
def _open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    try:
        with open_binary(strip_file_scheme(path) if is_local(path) else path) as source:
            yield pq.ParquetFile(source)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a name is not valid UTF-8: {error}") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _require_columns(
    parquet_file: pq.ParquetFile, path: str, column_names: Sequence[str], table_name: str
) -> None:
    """Raise InputError unless a file has each of these columns of a table once, and of a type that
    can be converted to the table's."""
    file_schema = parquet_file.schema_arrow
    for field in arrow_schema(select_columns(table_name, tuple(column_names))):
        indexes = file_schema.get_all_field_indices(field.name)
        if not indexes:
            raise InputError(f"{path}: has no column {field.name}; export with all columns")
        if len(indexes) > 1:
            raise InputError(f"{path}: has the column {field.name} {len(indexes)} times")
        file_type = file_schema.field(indexes[0]).type
        if not _is_convertible(file_type, field.type):
            raise InputError(
                f"{path}: the column {field.name} is of type {file_type}, not {field.type}"
            )


def _is_convertible(file_type: pa.DataType, table_type: pa.DataType) -> bool:
    """Whether values of a column in a file can be converted to the type of a table's column, each
    to the same number, text or bytes."""
    if pa.types.is_dictionary(file_type):
        file_type = file_type.value_type
    if pa.types.is_null(file_type):
        return True
    if pa.types.is_integer(table_type):
        return bool(pa.types.is_integer(file_type))
    is_text: bool = pa.types.is_string(file_type) or pa.types.is_large_string(file_type)
    if pa.types.is_string(table_type):
        return is_text
    if pa.types.is_binary(table_type):
        is_binary: bool = (
            pa.types.is_binary(file_type)
            or pa.types.is_large_binary(file_type)
            or pa.types.is_fixed_size_binary(file_type)
        )
        return is_text or is_binary
    try:
        pa.nulls(0, file_type).cast(table_type)
    except pa.ArrowException:
        return False
    return True


def offset_array(rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The offsets of rows."""
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]] = rows.column("offset").to_numpy()
    return offsets
