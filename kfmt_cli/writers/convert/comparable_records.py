"""A common form for records of any magic, batch and codec, so that logs can be compared.

It contains what a consumer receives: offset, timestamp and its type, key, value, headers.
"""

from __future__ import annotations

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import IntArray, Layout, encode_rows
from kfmt_cli.core.layout.wire_types import ArrayWireType, BytesWireType, Int8, Int64, ZigZag32
from kfmt_cli.formats.batch import RECORD_HEADER
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.log_tables import RECORD_COLUMN_INDEX
from kfmt_cli.writers.build.batch_drafts import normalize_magic0_timestamps

COMPARED_RECORD_LAYOUT = Layout(
    "ComparedRecord",
    "The data that a consumer receives from a record.",
    "org.apache.kafka.clients.consumer.ConsumerRecord",
    (
        Field("offset", Int64, "Offset."),
        Field("timestamp", Int64, "Timestamp; -1 without one."),
        Field("timestamp_type", Int8, "Its type."),
        Field("key", BytesWireType(ZigZag32), "Key."),
        Field("value", BytesWireType(ZigZag32), "Value."),
        Field("headers", ArrayWireType(ZigZag32, RECORD_HEADER), "Headers."),
    ),
    bulk=True,
)


def _create_comparison_program() -> IntArray:
    """The layout's program for the columns of `RecordColumns.rows`."""
    program: IntArray = COMPARED_RECORD_LAYOUT.program.reshape(-1, 3).copy()
    for instruction, field in zip(program, COMPARED_RECORD_LAYOUT.fields, strict=False):
        instruction[1] = RECORD_COLUMN_INDEX[field.name]
    return program.reshape(-1)


COMPARISON_PROGRAM = _create_comparison_program()


def encode_comparable_records(records: RecordColumns) -> bytearray:
    """Encode the records as bytes that depend only on the data a consumer receives."""
    rows = records.rows
    normalize_magic0_timestamps(rows)
    return encode_rows(COMPARISON_PROGRAM, records.data, rows.data, records.headers)[0]
