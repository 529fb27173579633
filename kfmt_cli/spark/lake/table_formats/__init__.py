"""Commits an export's files to tables of a table format. To add one, write a file with a class, and
a line in `TABLE_FORMATS`.

The data files are those of the export: the driver writes only metadata. A table keeps, in the same
transaction, the number of the export's commit, so that a repeated commit adds nothing, and one that
a kill prevented is made by the next run. What a commit replaces stays on disk until the table's own
maintenance deletes it (VACUUM; expiring snapshots and removing orphan files), as readers of earlier
versions need it.
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

from kfmt_cli.core.lazy import load
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.opening import file_at
from kfmt_cli.errors import OutputError, UsageError
from kfmt_cli.rows.table_types import LAKE_TABLES
from kfmt_cli.spark.lake.commits import Commit, bundles_of, numbered

AT_ONCE = 16  # footers of files


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file."""

    n_bytes: int
    footer: pq.FileMetaData


def schema_in(files: Mapping[str, DataFile]) -> pa.Schema:
    """The schema of some files, all of one table."""
    return next(iter(files.values())).footer.schema.to_arrow_schema()


class OpenTable(Protocol):
    """A table in its format."""

    @property
    def number(self) -> int:
        """The number of the last commit of the export; 0 if there is no table."""

    def files(self) -> frozenset[str]:
        """The names of the table's files below its directory."""

    def commit(self, number: int, added: Mapping[str, DataFile], removed: Set[str]) -> None:
        """Make the table if it is missing, and add and remove files, all or nothing; raises
        OutputError. number: of the export's commit."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A table format."""

    package: str
    table: str
    """Module and class; called with the export's directory, the name of a table and the catalog."""
    takes_catalog: bool = False


_HERE = "kfmt_cli.spark.lake.table_formats"
TABLE_FORMATS = {
    "delta": TableFormat("deltalake", f"{_HERE}.delta:Delta"),
    "iceberg": TableFormat("pyiceberg", f"{_HERE}.iceberg:Iceberg", takes_catalog=True),
}


@dataclass(frozen=True, slots=True)
class TableTarget:
    """The tables of an export."""

    format: str
    catalog: str = ""
    """A catalog of the format's library and a namespace, with a dot between them."""

    def check(self, to: str, file_format: str) -> None:
        """Raise UsageError if the tables cannot be written."""
        known = TABLE_FORMATS[self.format]
        if file_format != "parquet":
            raise UsageError(f"--table {self.format} needs --format parquet")
        if self.catalog and not known.takes_catalog:
            raise UsageError(f"--table {self.format} has no --catalog")
        if find_spec(known.package) is None:
            words = f"pip install 'kfmt-cli[{self.format}]'"
            raise UsageError(f"{known.package} is not installed: {words}")
        if self.catalog or not is_local(to):
            for name in LAKE_TABLES:
                self._open(to, name)

    def _open(self, to: str, name: str) -> OpenTable:
        table: OpenTable = load(TABLE_FORMATS[self.format].table)(to, name, self.catalog)
        return table

    def bring_to(self, to: str, commit: Commit) -> None:
        """Commit to each table what the export's commit changed; raises OutputError, UsageError."""
        now = _files(to, commit)
        for name in LAKE_TABLES if commit.number else ():
            table = self._open(to, name)
            if table.number == commit.number or not (table.number or now[name]):
                continue
            before = _files(to, numbered(to, table.number))[name]
            removed = before.keys() - now[name]
            if removed and (foreign := removed - table.files()):
                raise OutputError(
                    f"{to}/{name}: another writer replaced {min(foreign)}, so its rows "
                    "cannot be removed; nothing committed to this table; export to another --to"
                )
            new = {file: n_bytes for file, n_bytes in now[name].items() if file not in before}
            with ThreadPoolExecutor(AT_ONCE) as pool:
                footers = pool.map(_footer, (f"{to}/{name}/{file}" for file in new))
                added = dict(zip(new, map(DataFile, new.values(), footers), strict=True))
            table.commit(commit.number, added, removed)


def _files(to: str, commit: Commit) -> dict[str, dict[str, int]]:
    """The files of each table after a commit: name below its directory, and size in bytes. Raises
    InputError."""
    made: dict[str, dict[str, int]] = {table: {} for table in LAKE_TABLES}
    for file in chain.from_iterable(bundles_of(to, commit).values()):
        table = file["table"]
        made[table][file["file"].removeprefix(f"{table}/")] = file["bytes"]
    return made


def _footer(place: str) -> pq.FileMetaData:
    with file_at(place) as source:
        return pq.read_metadata(source)
