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

from kfmt_cli.core.urls import is_local, local
from kfmt_cli.errors import OutputError, UsageError
from kfmt_cli.spark.lake.table_formats import DataFile, schema_in

NUMBER = "kfmt.commit"  # the table property with the number of the export's commit
NAMESPACE = "kfmt"  # in the directory's own catalog


class Iceberg:
    """A table in a directory of the export. Without a catalog, a local directory has its own, a
    SQLite database."""

    def __init__(self, to: str, name: str, catalog: str) -> None:
        self._place = f"{f'file://{local(to)}' if is_local(to) else to}/{name}"
        self._catalog, self._namespace = _catalog(to, catalog)
        self._id = f"{self._namespace}.{name}"
        self._table: IcebergTable | None = None
        with suppress(NoSuchTableError):
            self._table = self._catalog.load_table(self._id)
        if self._table is not None and self._table.location().rstrip("/") != self._place:
            raise UsageError(
                f"{self._place}: table {self._id} of the catalog is at {self._table.location()}; "
                "choose another namespace with --catalog"
            )

    @property
    def number(self) -> int:
        """The number of the last commit of the export; 0 if there is no table."""
        return 0 if self._table is None else int(self._table.properties.get(NUMBER, 0))

    def files(self) -> frozenset[str]:
        """The names of the table's files below its directory."""
        return frozenset() if self._table is None else frozenset(self._data_files(self._table))

    def commit(self, number: int, added: Mapping[str, DataFile], removed: Set[str]) -> None:
        """Make the table if it is missing, and add and remove files; raises OutputError."""
        table = self._table
        if table is None:
            self._catalog.create_namespace_if_not_exists(self._namespace)
            table = self._catalog.create_table(self._id, schema_in(added), location=self._place)
        known = self._data_files(table) if removed else {}
        places = (f"{self._place}/{name}" for name in added)
        try:
            with table.transaction() as transaction:
                if added or removed:
                    with transaction.update_snapshot().overwrite() as snapshot:
                        for name in sorted(removed):
                            snapshot.delete_data_file(known[name])
                        metadata = transaction.table_metadata
                        for file in parquet_files_to_data_files(table.io, metadata, places):
                            snapshot.append_data_file(file)
                transaction.set_properties({NUMBER: str(number)})
        except CommitFailedException as error:
            raise OutputError(f"{self._place}: commit failed: {error}") from error

    def _data_files(self, table: IcebergTable) -> dict[str, IcebergFile]:
        """The table's files, by name below its directory."""
        front = f"{self._place}/"
        found = (task.file for task in table.scan().plan_files())
        return {file.file_path.removeprefix(front): file for file in found}


def _catalog(to: str, named: str) -> tuple[Catalog, str]:
    """A catalog and the namespace in it; raises UsageError."""
    if not named and is_local(to):
        uri = f"sqlite:///{local(to)}/_kfmt/iceberg.db"
        return SqlCatalog("kfmt", uri=uri, warehouse=f"file://{local(to)}"), NAMESPACE
    name, _, namespace = named.partition(".")
    if not namespace:
        raise UsageError(
            f"{to}: tables in a store need --catalog CATALOG.NAMESPACE"
            if not named
            else f"--catalog {named!r} is not CATALOG.NAMESPACE"
        )
    try:
        return load_catalog(name), namespace
    except ValueError as error:
        raise UsageError(f"--catalog {name}: {error}") from error
