"""The columns that exported records can have: kfmt's own, or those of Spark's source for Kafka."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.arrays import TIME
from kfmt_cli.arrow.schema import HEADERS

KFMT, KAFKA, KAFKA_HEADERS = "kfmt", "kafka", "kafka-headers"


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """Columns."""

    columns: tuple[str, ...] = ()
    """Those of the table of records that are needed; empty for those that were asked for."""
    schema: pa.Schema | None = None
    """Of the file; None for that of the columns."""
    keeps: Callable[[pa.RecordBatch], pa.Array] | None = None
    """Gives a mask of the rows that are wanted; None for all."""
    adapt: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda rows: rows
    """Rows with these columns, of rows of the table."""


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
_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_NEEDED = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "control")


def _is_for_consumers(rows: pa.RecordBatch) -> pa.Array:
    """Control records are not."""
    return pc.invert(rows.column("control").fill_null(False))


def _as_spark(schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """-1 is the time of what has none."""

    def adapted(rows: pa.RecordBatch) -> pa.RecordBatch:
        words = rows.column("timestamp_type")
        known = pa.array(list(_TYPES), pa.string())
        numbers = pa.array(list(_TYPES.values()), pa.int32())
        types = numbers.take(pc.index_in(words, known)).fill_null(-1)
        made = {name: rows.column(name) for name in rows.schema.names}
        made["timestampType"] = types
        made["timestamp"] = rows.column("timestamp").fill_null(pa.scalar(-1000, TIME))
        return pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)

    return adapted


_WITH_HEADERS = _OF_SPARK.append(pa.field("headers", HEADERS))
SCHEMAS = {
    KFMT: RecordSchema(),
    KAFKA: RecordSchema(_NEEDED, _OF_SPARK, _is_for_consumers, _as_spark(_OF_SPARK)),
    KAFKA_HEADERS: RecordSchema(
        (*_NEEDED, "headers"), _WITH_HEADERS, _is_for_consumers, _as_spark(_WITH_HEADERS)
    ),
}
