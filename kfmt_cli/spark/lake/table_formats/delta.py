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

from kfmt_cli.core.small_objects import store_settings
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

    def __init__(self, output_directory: str, name: str, catalog: str) -> None:
        del catalog
        store_options = None
        if is_local(output_directory):
            output_directory = strip_file_scheme(output_directory)
        else:
            store_options = store_settings(f"{output_directory}/")
        self._path = f"{output_directory}/{name}"
        self._storage_options = (
            None if store_options is None else {**store_options, "allow_http": "true"}
        )
        exists = DeltaTable.is_deltatable(self._path, self._storage_options)
        self._table = (
            DeltaTable(self._path, storage_options=self._storage_options) if exists else None
        )

    @property
    def last_commit_number(self) -> int:
        """The number of the last commit of the export; 0 if there is no table."""
        return 0 if self._table is None else self._table.transaction_version(APPLICATION_ID) or 0

    def files(self) -> frozenset[str]:
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
            AddAction(name, file.n_bytes, {}, modified_ms, True, _format_statistics(file.footer))
            for name, file in added_files.items()
        ]
        actions += [RemoveAction(name, True, modified_ms) for name in sorted(removed_names)]
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
    for name in (name for name in STATISTICS_COLUMNS if name in column_names):
        group_statistics = [
            footer.row_group(i).column(column_names.index(name)).statistics
            for i in range(footer.num_row_groups)
        ]
        if any(group is None or group.null_count is None for group in group_statistics):
            continue
        null_counts[name] = sum(group.null_count for group in group_statistics)
        bounded_statistics = [group for group in group_statistics if group.has_min_max]
        if (
            len(bounded_statistics) == sum(group.num_values > 0 for group in group_statistics)
            and bounded_statistics
        ):
            min_values[name] = _to_json_value(min(group.min for group in bounded_statistics))
            max_values[name] = _to_json_value(max(group.max for group in bounded_statistics))
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": min_values,
            "maxValues": max_values,
            "nullCount": null_counts,
        }
    )


def _to_json_value(value: Any) -> Any:
    """A bound as a JSON value; times in milliseconds, like Kafka's."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"
    return value
