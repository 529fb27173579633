"""Record batch v2 (magic 2), its records and their headers.

Source: `org.apache.kafka.common.record.DefaultRecordBatch`, `DefaultRecord`.
"""

from kfmt_cli.core.layout.field import MS_UNIT, BitField, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import (
    ArrayWireType,
    BytesWireType,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt32,
    ZigZag32,
    ZigZag64,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
MAX_SEQUENCE = (1 << 31) - 1  # followed by 0
NO_SEQUENCE = -1

# The bits of the attributes. Legacy messages have codec and timestamp type in the same bits.
COMPRESSION = BitField("compression", shift=0, width=3, symbols=CODECS, doc="Codec of the records.")
TIMESTAMP_TYPE = BitField(
    "timestamp_type",
    shift=3,
    symbols=TIMESTAMP_TYPES,
    doc="Who set the timestamps: the producer (CreateTime) or the broker on append "
    "(LogAppendTime).",
)
TRANSACTIONAL = BitField("transactional", shift=4, doc="The batch belongs to a transaction.")
CONTROL = BitField(
    "control", shift=5, doc="The batch contains control records, which consumers never see."
)
DELETE_HORIZON = BitField(
    "delete_horizon", shift=6, doc="The base timestamp is a delete horizon (KIP-534)."
)
ATTRIBUTES = (COMPRESSION, TIMESTAMP_TYPE, TRANSACTIONAL, CONTROL, DELETE_HORIZON)

RECORD_BATCH = Layout(
    "RecordBatch",
    "The 61-byte header of a magic 2 batch; the records follow.",
    "org.apache.kafka.common.record.DefaultRecordBatch",
    (
        Field("base_offset", Int64, "Offset of the first record; not covered by the checksum."),
        Field("batch_length", Int32, "Bytes after this field; the batch is 12 bytes longer."),
        Field(
            "partition_leader_epoch",
            Int32,
            "Epoch of the leader that appended the batch; -1 for none. Not in the checksum.",
        ),
        Field("magic", Int8, "Format of the batch: 2. Always byte 16, whatever the format."),
        Field("crc", UInt32, "CRC-32C from the attributes to the end of the batch."),
        Field("attributes", Int16, "Bits; the high byte is unused.", flags=ATTRIBUTES),
        Field("last_offset_delta", Int32, "Last offset, relative to the base offset."),
        Field(
            "base_timestamp",
            Int64,
            "Base of the record timestamps; the delete horizon if its bit is set.",
            unit=MS_UNIT,
            none_value=-1,
        ),
        Field(
            "max_timestamp",
            Int64,
            "The largest record timestamp, or the append time.",
            unit=MS_UNIT,
            none_value=-1,
        ),
        Field(
            "producer_id",
            Int64,
            "Id of an idempotent or transactional producer; -1 for none.",
            none_value=-1,
        ),
        Field("producer_epoch", Int16, "Epoch of that producer; -1 for none.", none_value=-1),
        Field(
            "base_sequence",
            Int32,
            "Sequence number of the first record; -1 for none.",
            none_value=-1,
        ),
        Field("records_count", Int32, "Records in the batch."),
    ),
    bulk=True,
)

RECORD_HEADER = Layout(
    "RecordHeader",
    "A header of a record.",
    "org.apache.kafka.common.record.DefaultRecord",
    (
        Field("key", BytesWireType(ZigZag32, nullable=False), "The header's name, UTF-8."),
        Field("value", BytesWireType(ZigZag32), "null if the length is negative."),
    ),
)

RECORD = Layout(
    "Record",
    "A magic 2 record; in compressed batches, all records are in one compressed block.",
    "org.apache.kafka.common.record.DefaultRecord",
    (
        Field("length", ZigZag32, "Size of the rest of the record in bytes.", is_frame_size=True),
        Field("attributes", Int8, "Unused."),
        Field(
            "timestamp_delta",
            ZigZag64,
            "Timestamp, relative to the batch's base timestamp.",
            unit=MS_UNIT,
        ),
        Field("offset_delta", ZigZag32, "Offset, relative to the batch's base offset."),
        Field("key", BytesWireType(ZigZag32), "null if the length is negative."),
        Field("value", BytesWireType(ZigZag32), "null if the length is negative: a tombstone."),
        Field(
            "headers",
            ArrayWireType(ZigZag32, RECORD_HEADER),
            "In the order set by the producer; names may repeat.",
        ),
    ),
    bulk=True,
)
