"""Messages of magic 0 and 1, written by brokers before 0.11 or with message.format.version.

Source: `org.apache.kafka.common.record.LegacyRecord`.
"""

from dataclasses import replace

from kfmt_cli.core.layout.field import MS_UNIT, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import BytesWireType, Int8, Int32, Int64, UInt32
from kfmt_cli.formats.batch import CODECS, COMPRESSION, TIMESTAMP_TYPE

LEGACY_CODECS = CODECS[:4]

_COMPRESSION = replace(
    COMPRESSION, symbols=LEGACY_CODECS, doc="Codec of the message set in the value."
)
ATTRIBUTES_V0 = (_COMPRESSION,)
ATTRIBUTES_V1 = (
    _COMPRESSION,
    replace(
        TIMESTAMP_TYPE,
        doc="Who set the timestamp: the producer (CreateTime) or the broker on append "
        "(LogAppendTime).",
    ),
)

_HEADER_FIELDS = (
    Field("offset", Int64, "For a wrapper: the offset of its last inner message."),
    Field("message_size", Int32, "Bytes after this field.", is_frame_size=True),
    Field("crc", UInt32, "CRC-32 of everything after this field."),
)
_KEY = Field("key", BytesWireType(Int32), "null if the length is negative; null in a wrapper.")
_VALUE = Field(
    "value",
    BytesWireType(Int32),
    "null if the length is negative: a tombstone. For a wrapper: the compressed message set.",
)

MESSAGE_V0 = Layout(
    "MessageV0",
    "A magic 0 message, standalone or as the wrapper of a compressed message set.",
    "org.apache.kafka.common.record.LegacyRecord",
    (
        *_HEADER_FIELDS,
        Field("magic", Int8, "Format of the message: 0."),
        Field("attributes", Int8, "Bits.", flags=ATTRIBUTES_V0),
        _KEY,
        _VALUE,
    ),
    bulk=True,
)

MESSAGE_V1 = Layout(
    "MessageV1",
    "A magic 1 message: magic 0 plus a timestamp; offsets inside a wrapper are relative.",
    "org.apache.kafka.common.record.LegacyRecord",
    (
        *_HEADER_FIELDS,
        Field("magic", Int8, "Format of the message: 1."),
        Field("attributes", Int8, "Bits.", flags=ATTRIBUTES_V1),
        Field("timestamp", Int64, "For a wrapper: the largest timestamp inside it.", unit=MS_UNIT),
        _KEY,
        _VALUE,
    ),
    bulk=True,
)

MESSAGE_LAYOUTS = (MESSAGE_V0, MESSAGE_V1)

NOTES_V0 = Layout(
    "NotesV0",
    "A simplified message that some articles use to explain magic 0. No broker writes it: the "
    "checksum is eight bytes wide and covers the value only, and no offset or size "
    "precedes it.",
    "none: a teaching aid",
    (
        Field("crc", Int64, "CRC-32 of the value."),
        Field("magic", Int8, "0."),
        Field("attributes", Int8, "Bits.", flags=ATTRIBUTES_V0),
        Field("key", BytesWireType(Int32), "null if the length is negative."),
        Field("value", BytesWireType(Int32), "null if the length is negative."),
    ),
)
