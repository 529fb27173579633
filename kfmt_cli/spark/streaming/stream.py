"""`spark.readStream.format("kfmt")`: growing directories, and buckets that receive segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kfmt_cli.errors import UsageError
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.rows.table_types import BATCHES_TABLE, RECORDS_TABLE
from kfmt_cli.spark.input_partition import KfmtInputPartition
from kfmt_cli.spark.source_options import StreamOptions
from kfmt_cli.spark.streaming.follower import StreamFollower
from kfmt_cli.spark.streaming.segment_ends import UNLIMITED, TriggerBudget
from kfmt_cli.spark.worker import DriverEnvironment, wrap_with_driver_kfmt

if TYPE_CHECKING:
    import pyarrow as pa

try:  # Spark 4.2 and newer
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = object  # type: ignore[misc,assignment]
    SupportsTriggerAvailableNow = object  # type: ignore[misc,assignment]


class KfmtStreamReader(DataSourceStreamReader):
    """Plans triggers on the driver, reads in the tasks."""

    def __init__(
        self, request: ReadRequest, driver_env: DriverEnvironment, options: StreamOptions
    ) -> None:
        if request.table not in (RECORDS_TABLE.name, BATCHES_TABLE.name):
            raise UsageError(f"kfmt: a stream supports records or batches, not {request.table}")
        if request.selection_options.needs_logs:
            raise UsageError("kfmt: a stream supports neither `last` nor read_committed")
        self.request = request
        self.driver_env = driver_env
        self.options = options
        self.stream_follower = StreamFollower(request, options.fails_on_data_loss)
        self.planned_end_positions: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        """Pickle as a function that imports the driver's kfmt in a worker before this class."""
        create_reader = partial(type(self), self.request, self.driver_env, self.options)
        return wrap_with_driver_kfmt(self.driver_env, create_reader), ()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """The start of a new query; raises InputError for a path that does not exist."""
        self.stream_follower.check_paths()
        return self.stream_follower.find_end_positions() if self.options.starts_at_latest else {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """The end of the next trigger. Up to Spark 4.1, Spark passes neither start nor limit."""
        return self.stream_follower.latest_positions(
            self.planned_end_positions if start is None else start, self._trigger_budget(limit)
        )

    def _trigger_budget(self, limit: Any) -> TriggerBudget | None:
        """The limits of a trigger, from the options: Spark knows only one limit of a source."""
        if limit is None or isinstance(limit, ReadAllAvailable):
            return None
        options = self.options
        return TriggerBudget(
            options.max_bytes_per_trigger or UNLIMITED, options.max_rows_per_trigger or UNLIMITED
        )

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """The limit that the options set, in Spark 4.2 and later."""
        if self.options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        if self.options.max_rows_per_trigger is not None:
            return ReadMaxRows(self.options.max_rows_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The next offset of each partition, for the progress of a query, in Spark 4.2 and later;
        None before the first listing."""
        return self.stream_follower.last_end_positions() or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The input partitions of a trigger."""
        input_partitions = self.stream_follower.plan_input_partitions(start, end)
        self.planned_end_positions = end
        return [*input_partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of an input partition."""
        from kfmt_cli.spark.partition_reader import read_input_partition

        assert isinstance(partition, KfmtInputPartition)
        return read_input_partition(self.request, partition)


class AvailableNowStreamReader(KfmtStreamReader, SupportsTriggerAvailableNow):
    """A reader for Spark versions that announce the trigger AvailableNow."""

    def __init__(
        self, request: ReadRequest, driver_env: DriverEnvironment, options: StreamOptions
    ) -> None:
        super().__init__(request, driver_env, options)
        self.available_now_end_positions: dict[str, Any] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the end of the query to the current end of the data."""
        self.available_now_end_positions = self.stream_follower.find_end_positions()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        return self.stream_follower.latest_positions(
            start or {}, self._trigger_budget(limit), self.available_now_end_positions
        )


def create_stream_reader(
    request: ReadRequest, driver_env: DriverEnvironment, options: StreamOptions
) -> KfmtStreamReader:
    """The reader that this Spark version supports."""
    has_available_now = SupportsTriggerAvailableNow is not object
    return (AvailableNowStreamReader if has_available_now else KfmtStreamReader)(
        request, driver_env, options
    )
