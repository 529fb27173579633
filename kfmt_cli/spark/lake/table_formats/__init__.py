"""Commits an export's files to tables of a table format. To add a format, write a module with a
class, and add a line to `TABLE_FORMATS`.

The data files are the export's own: the driver writes only metadata. A transaction also stores the
number of the export's commit, so that a repeated commit adds nothing, and the next run makes the
commit that a killed run missed. Replaced files stay on disk until the table's own maintenance
deletes them (VACUUM; expiring snapshots and removing orphan files), as readers of earlier versions
need them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from kfmt_cli.core.lazy import import_object
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.file_access import open_binary
from kfmt_cli.errors import OutputError, UsageError
from kfmt_cli.rows.table_types import LAKE_TABLES
from kfmt_cli.spark.lake.commits import TableCommit, read_commit, read_file_groups

MAX_CONCURRENT_FOOTERS = 16  # file footers read at the same time


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file."""

    n_bytes: int
    footer: pq.FileMetaData


def arrow_schema_of_files(files: Mapping[str, DataFile]) -> pa.Schema:
    """The schema of some files, all of one table."""
    return next(iter(files.values())).footer.schema.to_arrow_schema()


class OpenTable(Protocol):
    """A table in its format."""

    @property
    def last_commit_number(self) -> int:
        """The number of the last commit of the export; 0 if there is no table."""

    def file_names(self) -> frozenset[str]:
        """The names of the table's files, relative to its directory."""

    def commit(
        self, commit_number: int, added_files: Mapping[str, DataFile], removed_names: Set[str]
    ) -> None:
        """Create the table if it is missing, and add and remove files in one transaction; raises
        OutputError. commit_number: the number of the export's commit."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A table format."""

    package: str
    open_table_class: str
    """Module and class; called with the export's directory, the name of a table and the catalog."""
    supports_catalog: bool = False


_PACKAGE = "kfmt_cli.spark.lake.table_formats"
TABLE_FORMATS = {
    "delta": TableFormat("deltalake", f"{_PACKAGE}.delta:DeltaOpenTable"),
    "iceberg": TableFormat(
        "pyiceberg", f"{_PACKAGE}.iceberg:IcebergOpenTable", supports_catalog=True
    ),
}


@dataclass(frozen=True, slots=True)
class TargetTables:
    """The tables of an export."""

    format: str
    catalog: str = ""
    """A catalog of the format's library and a namespace, with a dot between them."""

    def check_options(self, output_directory: str, file_format: str) -> None:
        """Raise UsageError if the tables cannot be written."""
        table_format = TABLE_FORMATS[self.format]
        if file_format != "parquet":
            raise UsageError(f"--table {self.format} needs --format parquet")
        if self.catalog and not table_format.supports_catalog:
            raise UsageError(f"--table {self.format} has no --catalog")
        if find_spec(table_format.package) is None:
            install_command = f"pip install 'kfmt-cli[{self.format}]'"
            raise UsageError(f"{table_format.package} is not installed: {install_command}")
        if self.catalog or not is_local(output_directory):
            for table_name in LAKE_TABLES:
                self._open_table(output_directory, table_name)

    def _open_table(self, output_directory: str, table_name: str) -> OpenTable:
        table: OpenTable = import_object(TABLE_FORMATS[self.format].open_table_class)(
            output_directory, table_name, self.catalog
        )
        return table

    def commit_changes(self, output_directory: str, commit: TableCommit) -> None:
        """Commit the changes up to the export's commit to each table; raises OutputError,
        UsageError."""
        current_files_by_table = _read_file_sizes_by_table(output_directory, commit)
        for table_name in LAKE_TABLES if commit.number else ():
            table = self._open_table(output_directory, table_name)
            if table.last_commit_number == commit.number or not (
                table.last_commit_number or current_files_by_table[table_name]
            ):
                continue
            previous_files = _read_file_sizes_by_table(
                output_directory, read_commit(output_directory, table.last_commit_number)
            )[table_name]
            removed_names = previous_files.keys() - current_files_by_table[table_name]
            if removed_names and (foreign_names := removed_names - table.file_names()):
                raise OutputError(
                    f"{output_directory}/{table_name}: another writer replaced "
                    f"{min(foreign_names)}, so "
                    "its rows cannot be removed; nothing committed to this table; export to "
                    "another --to"
                )
            size_by_new_file = {
                file_name: n_bytes
                for file_name, n_bytes in current_files_by_table[table_name].items()
                if file_name not in previous_files
            }
            with ThreadPoolExecutor(MAX_CONCURRENT_FOOTERS) as pool:
                footers = pool.map(
                    _read_footer,
                    (
                        f"{output_directory}/{table_name}/{file_name}"
                        for file_name in size_by_new_file
                    ),
                )
                added_files = dict(
                    zip(
                        size_by_new_file,
                        map(DataFile, size_by_new_file.values(), footers),
                        strict=True,
                    )
                )
            table.commit(commit.number, added_files, removed_names)


def _read_file_sizes_by_table(
    output_directory: str, commit: TableCommit
) -> dict[str, dict[str, int]]:
    """The files of each table after a commit: name relative to the table's directory, and size in
    bytes. Raises InputError."""
    file_sizes_by_table: dict[str, dict[str, int]] = {table: {} for table in LAKE_TABLES}
    for file_row in chain.from_iterable(read_file_groups(output_directory, commit).values()):
        table_name = file_row["table"]
        file_sizes_by_table[table_name][file_row["file"].removeprefix(f"{table_name}/")] = file_row[
            "bytes"
        ]
    return file_sizes_by_table


def _read_footer(path: str) -> pq.FileMetaData:
    with open_binary(path) as parquet_file:
        return pq.read_metadata(parquet_file)
