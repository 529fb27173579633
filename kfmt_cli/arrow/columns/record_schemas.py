"""The column sets for exported records: kfmt's own, or the columns of Spark's Kafka source."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.columns.arrays import TIME
from kfmt_cli.arrow.columns.schema import CONSUMED_HEADERS

KFMT, KAFKA, KAFKA_HEADERS = "kfmt", "kafka", "kafka-headers"


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


SCHEMAS: dict[str, pa.Schema | None] = {
    KFMT: None,
    KAFKA: _OF_SPARK,
    KAFKA_HEADERS: _OF_SPARK.append(pa.field("headers", CONSUMED_HEADERS)),
}
"""None for the requested columns of the table of records."""


def needed_for(schema: pa.Schema) -> tuple[str, ...]:
    """The columns of the table of records that a schema is made from."""
    return (*_NEEDED, "headers") if "headers" in schema.names else _NEEDED


def are_for_consumers(rows: pa.RecordBatch) -> pa.Array:
    """Mask that excludes control records."""
    return pc.invert(rows.column("control").fill_null(False))


def as_spark(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the table of records in the columns of Spark's Kafka source; -1 ms replaces missing
    timestamps, as in Spark, and null those that no calendar has."""
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
