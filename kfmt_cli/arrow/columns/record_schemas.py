"""The column sets for exported records: kfmt's own, or the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.columns.arrays import TIME
from kfmt_cli.arrow.columns.schema import CONSUMED_HEADERS

KFMT, KAFKA, KAFKA_HEADERS = "kfmt", "kafka", "kafka-headers"


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A column set."""

    columns: tuple[str, ...] = ()
    """The columns needed from the table of records; empty for the requested ones."""
    schema: pa.Schema | None = None
    """The schema of the file; None to derive it from the columns."""
    keeps: Callable[[pa.RecordBatch], pa.Array] | None = None
    """Returns a mask of the rows to keep; None keeps all."""
    adapt: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda rows: rows
    """Converts rows of the table to these columns."""


# Source: `org.apache.spark.sql.kafka010.KafkaRecordToRowConverter`.
_OF_SPARK = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIME),
        ("timestampType", pa.int32()),
    ]
)
_NO_TIME = pa.scalar(-1000, TIME)
_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_NEEDED = (
    *("topic", "partition", "offset", "timestamp", "timestamp_ms", "timestamp_type"),
    *("key", "value", "control"),
)


def _is_for_consumers(rows: pa.RecordBatch) -> pa.Array:
    """Mask that excludes control records."""
    return pc.invert(rows.column("control").fill_null(False))


def _as_spark(schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Convert rows to the Spark schema; -1 ms replaces missing timestamps, as in Spark, and null
    those that no calendar has."""

    def adapted(rows: pa.RecordBatch) -> pa.RecordBatch:
        words = rows.column("timestamp_type")
        known = pa.array(list(_TYPES), pa.string())
        numbers = pa.array(list(_TYPES.values()), pa.int32())
        types = numbers.take(pc.index_in(words, known)).fill_null(-1)
        made = {name: rows.column(name) for name in rows.schema.names}
        made["timestampType"] = types
        is_missing = pc.is_null(rows.column("timestamp_ms"))
        made["timestamp"] = pc.if_else(is_missing, _NO_TIME, rows.column("timestamp"))
        if "headers" in made:
            made["headers"] = made["headers"].cast(CONSUMED_HEADERS)
        return pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)

    return adapted


_WITH_HEADERS = _OF_SPARK.append(pa.field("headers", CONSUMED_HEADERS))
SCHEMAS = {
    KFMT: RecordSchema(),
    KAFKA: RecordSchema(_NEEDED, _OF_SPARK, _is_for_consumers, _as_spark(_OF_SPARK)),
    KAFKA_HEADERS: RecordSchema(
        (*_NEEDED, "headers"), _WITH_HEADERS, _is_for_consumers, _as_spark(_WITH_HEADERS)
    ),
}
