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

from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.spark.input_partition import KfmtInputPartition
from kfmt_cli.spark.selections import plan_input_partitions
from kfmt_cli.spark.source_options import parse_request, require_paths
from kfmt_cli.spark.tables import spark_schema
from kfmt_cli.spark.worker import DriverEnvironment, wrap_with_driver_kfmt

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Spark pushes filters in a worker of this name, and only if its conf allows it. Up to 4.3 pushed
# filters stay with the DataFrame: its next query gets the same rows, whatever its filters. That is
# why the option is also required.
PUSHDOWN_WORKER_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"


class KfmtReader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(self, request: ReadRequest, driver_env: DriverEnvironment) -> None:
        self.request = request
        self.driver_env = driver_env

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        """Pickle as a function that imports the driver's kfmt in a worker before this class."""
        return wrap_with_driver_kfmt(
            self.driver_env, partial(type(self), self.request, self.driver_env)
        ), ()

    def partitions(self) -> list[InputPartition]:
        """The input partitions; an empty one if there is nothing to read, as Spark needs one."""
        return [*plan_input_partitions(self.request)] or [KfmtInputPartition()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of an input partition."""
        from kfmt_cli.spark.partition_reader import read_input_partition

        assert isinstance(partition, KfmtInputPartition)
        return read_input_partition(self.request, partition)


class FilteringReader(KfmtReader):
    """A reader narrowed by the query's filters. It is a separate class: with the conf off, Spark
    fails every query of a reader that has this method."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 (Spark's name)
        """Apply bounds on offsets and times; Spark applies all filters again."""
        from kfmt_cli.spark.filters import narrow_request

        for filter_ in filters:
            self.request = narrow_request(self.request, filter_)
            yield filter_


class KfmtDataSource(DataSource):
    """`spark.read.format("kfmt")`; for options see `OPTION_DESCRIPTIONS` in `source_options.py`."""

    def __init__(self, options: dict[str, str], driver_env: DriverEnvironment) -> None:
        super().__init__(options)
        self.driver_env = driver_env

    @classmethod
    def name(cls) -> str:
        return "kfmt"

    def schema(self) -> str:
        return spark_schema(parse_request(self.options).output_columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        request = require_paths(parse_request(self.options))
        uses_pushdown = request.uses_pushdown and PUSHDOWN_WORKER_MODULE in sys.modules
        return (FilteringReader if uses_pushdown else KfmtReader)(request, self.driver_env)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        del schema
        from kfmt_cli.spark.source_options import parse_stream_options
        from kfmt_cli.spark.streaming.stream import create_stream_reader

        request = require_paths(parse_request(self.options))
        return create_stream_reader(request, self.driver_env, parse_stream_options(self.options))


def create_shipped_source_type(driver_env: DriverEnvironment) -> type[DataSource]:
    """The data source to register: it imports the driver's kfmt in a worker.

    Spark pickles this class by value, so its methods refer to nothing in kfmt.
    """
    create_source = wrap_with_driver_kfmt(
        driver_env, partial(KfmtDataSource, driver_env=driver_env)
    )

    class ShippedDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "kfmt"

        def schema(self) -> str:
            schema: str = create_source(self.options).schema()
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            reader: DataSourceReader = create_source(self.options).reader(schema)
            return reader

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            stream_reader: DataSourceStreamReader = create_source(self.options).streamReader(schema)
            return stream_reader

    return ShippedDataSource
