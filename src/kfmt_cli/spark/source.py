"""The data source `kfmt` for Spark's Python Data Source API."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kfmt_cli.spark.plan import Split, plan
from kfmt_cli.spark.request import Request, request_of
from kfmt_cli.spark.tables import ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Spark asks for filters in a worker of this name, and only when its conf allows it. Up to 4.3 what
# is pushed stays with the DataFrame: its next query, whatever it asks for, gets the same rows. So
# the option has to be given, too.
PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


class SplitPartition(InputPartition):
    """A split as Spark carries it to a task."""

    def __init__(self, split: Split) -> None:
        self.split = split


class KfmtReader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(self, request: Request) -> None:
        self.request = request

    def partitions(self) -> list[InputPartition]:
        """The splits; one without pieces where there is nothing, as Spark wants one at least."""
        splits = plan(self.request) or [Split(())]
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        from kfmt_cli.spark.rows import read_split

        assert isinstance(partition, SplitPartition)
        return read_split(self.request, partition.split)


class FilteringReader(KfmtReader):
    """The same, narrowed by the query's filters. A reader of its own: with the conf off, Spark
    fails every query of a reader that has this method."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 (Spark's name)
        """Take bounds on offsets and times; Spark applies all filters once more."""
        from kfmt_cli.spark.filters import narrowed

        for it in filters:
            self.request = narrowed(self.request, it)
            yield it


class KfmtDataSource(DataSource):
    """`spark.read.format("kfmt")`; options are those of `spark.request.OPTIONS`."""

    @classmethod
    def name(cls) -> str:
        return "kfmt"

    def schema(self) -> str:
        return ddl(request_of(self.options).shown)

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        request = request_of(self.options)
        pushed = request.pushdown and PUSHDOWN in sys.modules
        return FilteringReader(request) if pushed else KfmtReader(request)
