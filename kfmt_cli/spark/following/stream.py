"""`spark.readStream.format("kfmt")`: growing directories, and buckets that receive segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kfmt_cli.errors import UsageError
from kfmt_cli.rows.table_types import BATCHES, RECORDS
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.following.follower import Follower
from kfmt_cli.spark.following.history import EVERYTHING, Room
from kfmt_cli.spark.plan import Split
from kfmt_cli.spark.request import StreamOptions
from kfmt_cli.spark.worker import Home, carried

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

    def __init__(self, request: Request, home: Home, options: StreamOptions) -> None:
        if request.table not in (RECORDS.name, BATCHES.name):
            raise UsageError(f"kfmt: a stream supports records or batches, not {request.table}")
        if request.asked.needs_logs:
            raise UsageError("kfmt: a stream supports neither `last` nor read_committed")
        self.request = request
        self.home = home
        self.options = options
        self.follower = Follower(request, options.fails_on_data_loss)
        self.planned: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        """Pickle as a function that imports the driver's kfmt in a worker before this class."""
        made = partial(type(self), self.request, self.home, self.options)
        return carried(self.home, made), ()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """The start of a new query; raises InputError for a path that does not exist."""
        self.follower.begin()
        return self.follower.ends() if self.options.starts_at_latest else {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """The end of the next trigger. Up to Spark 4.1, Spark passes neither start nor limit."""
        return self.follower.latest(self.planned if start is None else start, self._room(limit))

    def _room(self, limit: Any) -> Room | None:
        """What a trigger may take. Spark knows only one limit of a source."""
        if limit is None or isinstance(limit, ReadAllAvailable):
            return None
        options = self.options
        return Room(options.most_bytes or EVERYTHING, options.most_rows or EVERYTHING)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """The limit of the options, in Spark 4.2 and later."""
        if self.options.most_bytes is not None:
            return ReadMaxBytes(self.options.most_bytes)
        if self.options.most_rows is not None:
            return ReadMaxRows(self.options.most_rows)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The next offset of each partition, for the progress of a query, in Spark 4.2 and later;
        None before the first listing."""
        return self.follower.ends_seen() or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The splits of a trigger."""
        splits = self.follower.splits(start, end)
        self.planned = end
        return [*splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        from kfmt_cli.spark.splits import read_split

        assert isinstance(partition, Split)
        return read_split(self.request, partition)


class NowStreamReader(KfmtStreamReader, SupportsTriggerAvailableNow):
    """A reader for Spark versions that announce the trigger AvailableNow."""

    def __init__(self, request: Request, home: Home, options: StreamOptions) -> None:
        super().__init__(request, home, options)
        self.until: dict[str, Any] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the end of the query to the current end of the data."""
        self.until = self.follower.ends()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        return self.follower.latest(start or {}, self._room(limit), self.until)


def stream_reader(request: Request, home: Home, options: StreamOptions) -> KfmtStreamReader:
    """The reader that this Spark version supports."""
    tells = SupportsTriggerAvailableNow is not object
    return (NowStreamReader if tells else KfmtStreamReader)(request, home, options)
