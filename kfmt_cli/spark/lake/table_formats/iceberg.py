"""Apache Iceberg tables, through PyIceberg."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table as IcebergTable

from kfmt_cli.core.urls import is_local, strip_file_scheme
from kfmt_cli.errors import OutputError, UsageError
from kfmt_cli.spark.lake.table_formats import DataFile, arrow_schema_of_files

COMMIT_NUMBER_PROPERTY = "kfmt.commit"  # the table property with the number of the export's commit
NAMESPACE = "kfmt"  # in the directory's own catalog


class IcebergOpenTable:
    """A table in a directory of the export. Without the option --catalog, a local directory has its
    own catalog, a SQLite database."""

    def __init__(self, output_directory: str, table_name: str, catalog: str) -> None:
        root_url = output_directory
        if is_local(output_directory):
            root_url = f"file://{strip_file_scheme(output_directory)}"
        self._location = f"{root_url}/{table_name}"
        self._catalog, self._namespace = _load_catalog(output_directory, catalog)
        self._table_identifier = f"{self._namespace}.{table_name}"
        self._table: IcebergTable | None = None
        with suppress(NoSuchTableError):
            self._table = self._catalog.load_table(self._table_identifier)
        if self._table is not None and self._table.location().rstrip("/") != self._location:
            raise UsageError(
                f"{self._location}: table {self._table_identifier} of the catalog is at "
                f"{self._table.location()}; choose another namespace with --catalog"
            )

    @property
    def last_commit_number(self) -> int:
        """The number of the last commit of the export; 0 if there is no table."""
        return (
            0 if self._table is None else int(self._table.properties.get(COMMIT_NUMBER_PROPERTY, 0))
        )

    def file_names(self) -> frozenset[str]:
        """The names of the table's files, relative to its directory."""
        return frozenset() if self._table is None else frozenset(self._find_data_files(self._table))

    def commit(
        self, commit_number: int, added_files: Mapping[str, DataFile], removed_names: Set[str]
    ) -> None:
        """Create the table if it is missing, and add and remove files; raises OutputError."""
        table = self._table
        if table is None:
            self._catalog.create_namespace_if_not_exists(self._namespace)
            table = self._catalog.create_table(
                self._table_identifier, arrow_schema_of_files(added_files), location=self._location
            )
        data_file_by_name = self._find_data_files(table) if removed_names else {}
        paths = (f"{self._location}/{name}" for name in added_files)
        try:
            with table.transaction() as transaction:
                if added_files or removed_names:
                    with transaction.update_snapshot().overwrite() as snapshot_update:
                        for file_name in sorted(removed_names):
                            snapshot_update.delete_data_file(data_file_by_name[file_name])
                        metadata = transaction.table_metadata
                        for file in parquet_files_to_data_files(table.io, metadata, paths):
                            snapshot_update.append_data_file(file)
                transaction.set_properties({COMMIT_NUMBER_PROPERTY: str(commit_number)})
        except CommitFailedException as error:
            raise OutputError(f"{self._location}: commit failed: {error}") from error

    def _find_data_files(self, table: IcebergTable) -> dict[str, IcebergFile]:
        """The table's files, by name relative to its directory."""
        prefix = f"{self._location}/"
        data_files = (task.file for task in table.scan().plan_files())
        return {file.file_path.removeprefix(prefix): file for file in data_files}


def _load_catalog(output_directory: str, catalog_option: str) -> tuple[Catalog, str]:
    """A catalog and the namespace in it; raises UsageError."""
    if not catalog_option and is_local(output_directory):
        uri = f"sqlite:///{strip_file_scheme(output_directory)}/_kfmt/iceberg.db"
        return SqlCatalog(
            "kfmt", uri=uri, warehouse=f"file://{strip_file_scheme(output_directory)}"
        ), NAMESPACE
    catalog_name, _, namespace = catalog_option.partition(".")
    if not namespace:
        raise UsageError(
            f"{output_directory}: tables in a store need --catalog CATALOG.NAMESPACE"
            if not catalog_option
            else f"--catalog {catalog_option!r} is not CATALOG.NAMESPACE"
        )
    try:
        return load_catalog(catalog_name), namespace
    except ValueError as error:
        raise UsageError(f"--catalog {catalog_name}: {error}") from error
