"""Delta Lake tables, through deltalake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from kfmt_cli.core.small_objects import object_store_options
from kfmt_cli.core.times import now_ms
from kfmt_cli.core.urls import is_local, strip_file_scheme
from kfmt_cli.errors import OutputError
from kfmt_cli.spark.lake.table_formats import DataFile, arrow_schema_of_files

# The application whose transactions have the numbers of the export's commits.
APPLICATION_ID = "kfmt"
# Columns whose bounds let readers skip files.
STATISTICS_COLUMNS = (
    *("topic", "partition", "offset", "timestamp", "timestamp_ms"),
    *("base_offset", "last_offset", "base_timestamp", "max_timestamp"),
)


class DeltaOpenTable:
    """A table in a directory of the export."""

    def __init__(self, output_directory: str, table_name: str, catalog: str) -> None:
        del catalog
        store_options = None
        if is_local(output_directory):
            output_directory = strip_file_scheme(output_directory)
        else:
            store_options = object_store_options(f"{output_directory}/")
        self._path = f"{output_directory}/{table_name}"
        self._storage_options = (
            None if store_options is None else {**store_options, "allow_http": "true"}
        )
        is_existing_table = DeltaTable.is_deltatable(self._path, self._storage_options)
        self._table = (
            DeltaTable(self._path, storage_options=self._storage_options)
            if is_existing_table
            else None
        )

    @property
    def last_commit_number(self) -> int:
        """The number of the last commit of the export; 0 if there is no table."""
        return 0 if self._table is None else self._table.transaction_version(APPLICATION_ID) or 0

    def file_names(self) -> frozenset[str]:
        """The names of the table's files, relative to its directory."""
        if self._table is None:
            return frozenset()
        quoted_paths = pa.table(self._table.get_add_actions())["path"].to_pylist()
        return frozenset(unquote(path) for path in quoted_paths)

    def commit(
        self, commit_number: int, added_files: Mapping[str, DataFile], removed_names: Set[str]
    ) -> None:
        """Create the table if it is missing, and add and remove files; raises OutputError."""
        if self._table is None:
            schema = Schema.from_arrow(arrow_schema_of_files(added_files))
            self._table = DeltaTable.create(
                self._path, schema, storage_options=self._storage_options
            )
        modified_ms = now_ms()
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                file_name, file.n_bytes, {}, modified_ms, True, _format_statistics(file.footer)
            )
            for file_name, file in added_files.items()
        ]
        actions += [
            RemoveAction(file_name, True, modified_ms) for file_name in sorted(removed_names)
        ]
        commit_properties = CommitProperties(
            app_transactions=[Transaction(APPLICATION_ID, commit_number)]
        )
        try:
            self._table.create_write_transaction(
                actions, "append", self._table.schema(), commit_properties=commit_properties
            )
        except DeltaError as error:
            raise OutputError(f"{self._path}: commit failed: {error}") from error


def _format_statistics(footer: pq.FileMetaData) -> str:
    """The number of rows, and the bounds of some columns, as Delta's JSON."""
    min_values: dict[str, Any] = {}
    max_values: dict[str, Any] = {}
    null_counts: dict[str, int] = {}
    column_names = [footer.schema.column(i).path for i in range(footer.num_columns)]
    for column_name in (name for name in STATISTICS_COLUMNS if name in column_names):
        row_group_statistics = [
            footer.row_group(i).column(column_names.index(column_name)).statistics
            for i in range(footer.num_row_groups)
        ]
        if any(
            column_statistics is None or column_statistics.null_count is None
            for column_statistics in row_group_statistics
        ):
            continue
        null_counts[column_name] = sum(
            column_statistics.null_count for column_statistics in row_group_statistics
        )
        bounded_statistics = [
            column_statistics
            for column_statistics in row_group_statistics
            if column_statistics.has_min_max
        ]
        if (
            len(bounded_statistics)
            == sum(column_statistics.num_values > 0 for column_statistics in row_group_statistics)
            and bounded_statistics
        ):
            min_values[column_name] = _to_json_value(
                min(column_statistics.min for column_statistics in bounded_statistics)
            )
            max_values[column_name] = _to_json_value(
                max(column_statistics.max for column_statistics in bounded_statistics)
            )
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": min_values,
            "maxValues": max_values,
            "nullCount": null_counts,
        }
    )


def _to_json_value(bound: Any) -> Any:
    """A bound as a JSON value; times in milliseconds, like Kafka's."""
    if isinstance(bound, datetime):
        return bound.astimezone(timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"
    return bound
