"""A pyarrow dataset over logs: DuckDB passes it columns and a filter.

DuckDB accepts only pyarrow's own datasets, so this is a subclass of one, without rows. It has its
own scanners: Arrow's read ahead in threads, and would still call Python after a query with a limit
has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import dataset as ds

from kfmt_cli.arrow.row_filter import RowFilter

ArrowBatchReader = Callable[[Sequence[str], RowFilter], Iterator[pa.RecordBatch]]
"""Reads columns of a table: yields Arrow batches with at least all rows that pass a filter."""


@dataclass(frozen=True, slots=True)
class LogScanner:
    """Some columns of the rows that pass a filter, with the methods of Arrow's Scanner."""

    _read_batches: ArrowBatchReader
    _schema: pa.Schema
    """The schema of all columns."""
    _column_names: Sequence[str]
    _filter_expression: Any
    """Arrow's filter expression, or None."""

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the result."""
        return pa.schema([self._schema.field(name) for name in self._column_names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read on demand."""
        row_filter = RowFilter(self._schema, self._filter_expression)
        needed_column_names = row_filter.referenced_columns | set(self._column_names)
        needed_columns = [name for name in self._schema.names if name in needed_column_names]
        for batch in self._read_batches(needed_columns or self._schema.names[:1], row_filter):
            batch_table = pa.Table.from_batches([batch])
            if self._filter_expression is not None:
                batch_table = batch_table.filter(self._filter_expression)
            yield from batch_table.select(self._column_names).to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows; reads no more batches than necessary."""
        batches: list[pa.RecordBatch] = []
        for batch in self.to_batches():
            batches.append(batch)
            if sum(map(len, batches)) >= num_rows:
                break
        return pa.Table.from_batches(batches, self.projected_schema).slice(0, num_rows)

    def count_rows(self) -> int:
        """The number of rows."""
        return sum(map(len, self.to_batches()))


class LogDataset(ds.InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
    """The rows of a scan; each scanner reads the logs again."""

    def __init__(self, schema: pa.Schema, read_batches: ArrowBatchReader) -> None:
        """schema: the schema of all columns."""
        super().__init__(schema.empty_table())
        self._read_batches = read_batches

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 (pyarrow's name)
        **_: Any,
    ) -> LogScanner:
        """A scanner of some columns, all by default, of the rows that pass a filter.

        Arrow's other options, such as the size of a batch, have no effect.
        """
        column_names = self.schema.names if columns is None else tuple(columns)
        return LogScanner(self._read_batches, self.schema, column_names, filter)

    def _raise_unsupported(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("a dataset of logs has no fragments; use to_table, or a query")

    get_fragments = filter = join = join_asof = replace_schema = sort_by = take = _raise_unsupported
