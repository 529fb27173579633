"""A common form for records of any magic, batch and codec, so that logs can be compared.

It contains what a consumer receives: offset, timestamp and its type, key, value, headers.
"""

from __future__ import annotations

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import IntArray, Layout, encoded
from kfmt_cli.core.layout.wire import Array, Bytes, Int8, Int64, ZigZag32
from kfmt_cli.formats.batch import RECORD_HEADER
from kfmt_cli.log.records import Records
from kfmt_cli.rows.log_tables import RECORD_NAMES
from kfmt_cli.writing.build.drafts import normalize

COMPARED = Layout(
    "ComparedRecord",
    "What a consumer is given of a record.",
    "org.apache.kafka.clients.consumer.ConsumerRecord",
    (
        Field("offset", Int64, "Offset."),
        Field("timestamp", Int64, "Timestamp; -1 without one."),
        Field("timestamp_type", Int8, "Its type."),
        Field("key", Bytes(ZigZag32), "Key."),
        Field("value", Bytes(ZigZag32), "Value."),
        Field("headers", Array(ZigZag32, RECORD_HEADER), "Headers."),
    ),
    bulk=True,
)


def _program() -> IntArray:
    """The Layout's program for the columns of `Records.rows`."""
    program: IntArray = COMPARED.program.reshape(-1, 3).copy()
    for instruction, field in zip(program, COMPARED.fields, strict=False):
        instruction[1] = RECORD_NAMES[field.name]
    return program.reshape(-1)


PROGRAM = _program()


def common_form(records: Records) -> bytearray:
    """Encode the records as bytes that depend only on the data a consumer receives."""
    rows = records.rows
    normalize(rows)
    return encoded(PROGRAM, records.data, rows.data, records.headers)[0]
