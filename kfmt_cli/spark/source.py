"""The data source `kfmt` for Spark's Python Data Source API."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.plan import Split
from kfmt_cli.spark.request import need_paths, request_of
from kfmt_cli.spark.tables import ddl
from kfmt_cli.spark.wanted import splits_of
from kfmt_cli.spark.worker import Home, carried

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Spark pushes filters in a worker of this name, and only if its conf allows it. Up to 4.3 pushed
# filters stay with the DataFrame: its next query gets the same rows, whatever its filters. That is
# why the option is also required.
PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


class KfmtReader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(self, request: Request, home: Home) -> None:
        self.request = request
        self.home = home

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        """Pickle as a function that imports the driver's kfmt in a worker before this class."""
        return carried(self.home, partial(type(self), self.request, self.home)), ()

    def partitions(self) -> list[InputPartition]:
        """The splits; an empty one if there is nothing to read, as Spark needs at least one."""
        return [*splits_of(self.request)] or [Split()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        from kfmt_cli.spark.splits import read_split

        assert isinstance(partition, Split)
        return read_split(self.request, partition)


class FilteringReader(KfmtReader):
    """A reader narrowed by the query's filters. It is a separate class: with the conf off, Spark
    fails every query of a reader that has this method."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 (Spark's name)
        """Apply bounds on offsets and times; Spark applies all filters again."""
        from kfmt_cli.spark.filters import narrowed

        for filter_ in filters:
            self.request = narrowed(self.request, filter_)
            yield filter_


class KfmtDataSource(DataSource):
    """`spark.read.format("kfmt")`; for options see `spark.request.OPTIONS`."""

    def __init__(self, options: dict[str, str], home: Home) -> None:
        super().__init__(options)
        self.home = home

    @classmethod
    def name(cls) -> str:
        return "kfmt"

    def schema(self) -> str:
        return ddl(request_of(self.options).shown)

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        request = need_paths(request_of(self.options))
        pushed = request.pushdown and PUSHDOWN in sys.modules
        return (FilteringReader if pushed else KfmtReader)(request, self.home)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        del schema
        from kfmt_cli.spark.following.stream import stream_reader
        from kfmt_cli.spark.request import stream_of

        request = need_paths(request_of(self.options))
        return stream_reader(request, self.home, stream_of(self.options))


def source_at(home: Home) -> type[DataSource]:
    """The data source to register: it imports the driver's kfmt in a worker.

    Spark pickles this class by value, so its methods refer to nothing in kfmt.
    """
    made = carried(home, partial(KfmtDataSource, home=home))

    class Carried(DataSource):
        @classmethod
        def name(cls) -> str:
            return "kfmt"

        def schema(self) -> str:
            schema: str = made(self.options).schema()
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            reader: DataSourceReader = made(self.options).reader(schema)
            return reader

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            stream: DataSourceStreamReader = made(self.options).streamReader(schema)
            return stream

    return Carried
