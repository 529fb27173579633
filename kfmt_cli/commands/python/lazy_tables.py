"""Logs as lazy tables for query engines: Polars and DuckDB.

Part of kfmt_cli's Python API (docs/python.md). The engine requests the columns that it needs, and
only these are built.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kfmt_cli.commands.python.bounds import accept_former_bounds, parse_bounds
from kfmt_cli.commands.python.read import LogRowReader, Path, as_sequence, log_rows
from kfmt_cli.core.credentials import strip_credentials
from kfmt_cli.errors import InputError, UsageError, unknown_name_error

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from kfmt_cli.arrow.row_filter import RowFilter
    from kfmt_cli.commands.sql.log_dataset import LogDataset
    from kfmt_cli.log.selection.selection import Selection

TABLES = ("records", "batches")


@dataclass(frozen=True, slots=True)
class TableScanSource:
    """A table of some logs, scanned with the columns that each query needs."""

    path: Path | Sequence[Path]
    table: str
    selection: Selection
    ignore_unreadable: bool

    def __post_init__(self) -> None:
        """Remove credentials from the paths; raises UsageError for an unknown table."""
        if self.table not in TABLES:
            raise unknown_name_error("table", self.table, TABLES)
        paths_without_credentials = [
            strip_credentials(os.fsdecode(path)) for path in as_sequence(self.path)
        ]
        object.__setattr__(self, "path", paths_without_credentials)

    def create_row_reader(self, columns: Sequence[str] | None = None) -> LogRowReader:
        """The rows with some columns, in this order; None: all columns."""
        return log_rows(self.path, self.table == "records", columns, self.selection)

    def iter_arrow_batches(
        self, columns: Sequence[str] | None = None, row_filter: RowFilter | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Arrow batches with all rows that can pass the filter, and possibly others; raises
        InputError for an input that cannot be read, unless `ignore_unreadable`."""
        row_reader = self.create_row_reader(columns)
        if row_filter is not None and self.table == "records":
            row_reader = row_reader.within(row_filter.bounding_selection(self.table))
        for arrow_batch in row_reader.arrow():
            self._raise_if_unread(row_reader)
            yield arrow_batch
        self._raise_if_unread(row_reader)

    def _raise_if_unread(self, row_reader: LogRowReader) -> None:
        if row_reader.unread and not self.ignore_unreadable:
            raise InputError(row_reader.unread[0])


@accept_former_bounds
def scan(
    path: Path | Sequence[Path],
    *,
    table: str = "records",
    from_offset: int | None = None,
    to_offset: int | None = None,
    from_time: int | datetime | str | None = None,
    to_time: int | datetime | str | None = None,
    ignore_unreadable: bool = False,
) -> pl.LazyFrame:
    """A table of logs as a Polars LazyFrame: files, partition directories, log directories.

    table: "records" or "batches". from_offset to to_time: inclusive bounds; times are in
    milliseconds, a datetime, or text. ignore_unreadable: skip inputs that cannot be read. Raises
    UsageError without Polars or pyarrow; collecting raises InputError for an input that cannot be
    read.
    """
    _require_library("polars", "polars")
    _require_library("pyarrow", "'kfmt-cli[arrow]'")
    import polars as pl

    try:
        from polars.io.plugins import register_io_source
    except ImportError:
        raise UsageError(f"Polars {pl.__version__} is too old: pip install -U polars") from None
    selection = parse_bounds(from_offset, to_offset, from_time, to_time)
    scan_source = TableScanSource(path, table, selection, ignore_unreadable)

    def iter_frames(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        for arrow_batch in scan_source.iter_arrow_batches(columns):
            if n_rows == 0:
                return
            frame = pl.DataFrame(arrow_batch)
            if n_rows is not None:  # counts rows before the predicate
                frame = frame.head(n_rows)
                n_rows -= len(frame)
            yield frame if predicate is None else frame.filter(predicate)

    empty_frame: Any = pl.DataFrame(scan_source.create_row_reader().schema.empty_table())
    return register_io_source(iter_frames, schema=empty_frame.schema)


@accept_former_bounds
def dataset(
    path: Path | Sequence[Path],
    *,
    table: str = "records",
    from_offset: int | None = None,
    to_offset: int | None = None,
    from_time: int | datetime | str | None = None,
    to_time: int | datetime | str | None = None,
    ignore_unreadable: bool = False,
) -> LogDataset:
    """A table of logs as a pyarrow dataset, which DuckDB queries by the name of its variable.

    Takes what `scan` takes. Raises UsageError without pyarrow; a query fails, naming an input
    that cannot be read.
    """
    _require_library("pyarrow", "'kfmt-cli[arrow]'")
    from kfmt_cli.commands.sql.log_dataset import LogDataset

    selection = parse_bounds(from_offset, to_offset, from_time, to_time)
    scan_source = TableScanSource(path, table, selection, ignore_unreadable)
    return LogDataset(scan_source.create_row_reader().schema, scan_source.iter_arrow_batches)


def _require_library(library: str, package: str) -> None:
    """Raise UsageError if a library is not installed. package: what to install."""
    try:
        import_module(library)
    except ImportError:
        raise UsageError(f"{library} is not installed: pip install {package}") from None
