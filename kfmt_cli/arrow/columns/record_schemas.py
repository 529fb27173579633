"""The column sets for exported records: kfmt's own, or the columns of Spark's Kafka source."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.arrow.columns.arrays import TIMESTAMP_TYPE
from kfmt_cli.arrow.columns.schema import CONSUMER_HEADERS_TYPE

KFMT_COLUMNS, KAFKA_COLUMNS, KAFKA_COLUMNS_WITH_HEADERS = "kfmt", "kafka", "kafka-headers"


# Source: `org.apache.spark.sql.kafka010.KafkaRecordToRowConverter`.
_KAFKA_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
    ]
)
_MISSING_TIMESTAMP = pa.scalar(-1000, TIMESTAMP_TYPE)
_NUMBER_BY_TIMESTAMP_TYPE = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_SOURCE_COLUMNS = (
    *("topic", "partition", "offset", "timestamp", "timestamp_ms", "timestamp_type"),
    *("key", "value", "control"),
)


RECORD_SCHEMAS: dict[str, pa.Schema | None] = {
    KFMT_COLUMNS: None,
    KAFKA_COLUMNS: _KAFKA_SCHEMA,
    KAFKA_COLUMNS_WITH_HEADERS: _KAFKA_SCHEMA.append(pa.field("headers", CONSUMER_HEADERS_TYPE)),
}
"""By name; None stands for the requested columns of the table of records."""


def source_columns(schema: pa.Schema) -> tuple[str, ...]:
    """The columns of the table of records from which a schema's columns are computed."""
    return (*_SOURCE_COLUMNS, "headers") if "headers" in schema.names else _SOURCE_COLUMNS


def data_record_mask(rows: pa.RecordBatch) -> pa.Array:
    """Mask that excludes control records."""
    return pc.invert(rows.column("control").fill_null(False))


def to_spark_kafka_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows of the table of records to the columns of Spark's Kafka source.

    As in Spark, a missing timestamp is -1 ms. Timestamps outside the years 1 to 9999 are null.
    """
    type_names = rows.column("timestamp_type")
    known_type_names = pa.array(list(_NUMBER_BY_TIMESTAMP_TYPE), pa.string())
    type_numbers = pa.array(list(_NUMBER_BY_TIMESTAMP_TYPE.values()), pa.int32())
    timestamp_types = type_numbers.take(pc.index_in(type_names, known_type_names)).fill_null(-1)
    column_by_name = {name: rows.column(name) for name in rows.schema.names}
    column_by_name["timestampType"] = timestamp_types
    missing_time_mask = pc.is_null(rows.column("timestamp_ms"))
    column_by_name["timestamp"] = pc.if_else(
        missing_time_mask, _MISSING_TIMESTAMP, rows.column("timestamp")
    )
    if "headers" in column_by_name:
        column_by_name["headers"] = column_by_name["headers"].cast(CONSUMER_HEADERS_TYPE)
    return pa.RecordBatch.from_arrays(
        [column_by_name[name] for name in schema.names], schema=schema
    )
