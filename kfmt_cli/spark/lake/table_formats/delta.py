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
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import OutputError
from kfmt_cli.spark.lake.table_formats import DataFile, schema_in

APP = "kfmt"  # the application whose transactions have the numbers of the export's commits
# Columns with which readers skip files.
BOUNDED = (
    *("topic", "partition", "offset", "timestamp", "timestamp_ms"),
    *("base_offset", "last_offset", "base_timestamp", "max_timestamp"),
)


class Delta:
    """A table in a directory of the export."""

    def __init__(self, to: str, name: str, catalog: str) -> None:
        del catalog
        self._place = f"{local(to) if is_local(to) else to}/{name}"
        settings = None if is_local(to) else store_settings(f"{to}/")
        self._options = None if settings is None else {**settings, "allow_http": "true"}
        is_there = DeltaTable.is_deltatable(self._place, self._options)
        self._table = DeltaTable(self._place, storage_options=self._options) if is_there else None

    @property
    def number(self) -> int:
        """The number of the last commit of the export; 0 if there is no table."""
        return 0 if self._table is None else self._table.transaction_version(APP) or 0

    def files(self) -> frozenset[str]:
        """The names of the table's files below its directory."""
        if self._table is None:
            return frozenset()
        found = pa.table(self._table.get_add_actions())["path"].to_pylist()
        return frozenset(unquote(path) for path in found)

    def commit(self, number: int, added: Mapping[str, DataFile], removed: Set[str]) -> None:
        """Make the table if it is missing, and add and remove files; raises OutputError."""
        if self._table is None:
            schema = Schema.from_arrow(schema_in(added))
            self._table = DeltaTable.create(self._place, schema, storage_options=self._options)
        now = now_ms()
        actions: list[AddAction | RemoveAction] = [
            AddAction(name, file.n_bytes, {}, now, True, _statistics(file.footer))
            for name, file in added.items()
        ]
        actions += [RemoveAction(name, True, now) for name in sorted(removed)]
        about = CommitProperties(app_transactions=[Transaction(APP, number)])
        try:
            self._table.create_write_transaction(
                actions, "append", self._table.schema(), commit_properties=about
            )
        except DeltaError as error:
            raise OutputError(f"{self._place}: commit failed: {error}") from error


def _statistics(footer: pq.FileMetaData) -> str:
    """The number of rows, and the bounds of some columns, as Delta's JSON."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    names = [footer.schema.column(i).path for i in range(footer.num_columns)]
    for name in (name for name in BOUNDED if name in names):
        groups = [
            footer.row_group(i).column(names.index(name)).statistics
            for i in range(footer.num_row_groups)
        ]
        if any(group is None or group.null_count is None for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        bounds = [group for group in groups if group.has_min_max]
        if len(bounds) == sum(group.num_values > 0 for group in groups) and bounds:
            lowest[name] = _plain(min(group.min for group in bounds))
            highest[name] = _plain(max(group.max for group in bounds))
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": lowest,
            "maxValues": highest,
            "nullCount": nulls,
        }
    )


def _plain(value: Any) -> Any:
    """A bound as JSON; times have milliseconds, as Kafka's have."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"
    return value
