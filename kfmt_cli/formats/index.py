"""The indexes of a log segment: offset → position, timestamp → offset, aborted transactions.

They have no header or checksum: a file is a sequence of entries.

Source: `org.apache.kafka.storage.internals.log.OffsetIndex`, `TimeIndex`, `AbortedTxn`.
"""

from kfmt_cli.core.layout.field import BYTE_UNIT, MS_UNIT, OFFSET_UNIT, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import Int16, Int32, Int64

MAX_RELATIVE_OFFSET = (1 << 31) - 1
_RELATIVE_OFFSET = Field(
    "relative_offset", Int32, "Offset, relative to the base offset in the file name."
)

OFFSET_INDEX_ENTRY = Layout(
    "OffsetIndexEntry",
    "An entry of `.index`: a search for this offset or a later one can start at the batch at this "
    "position of the log.",
    "org.apache.kafka.storage.internals.log.OffsetIndex",
    (
        _RELATIVE_OFFSET,
        Field("log_position", Int32, "Position of a batch in the log.", unit=BYTE_UNIT),
    ),
)

TIME_INDEX_ENTRY = Layout(
    "TimeIndexEntry",
    "An entry of `.timeindex`: no record up to this offset is newer than this timestamp.",
    "org.apache.kafka.storage.internals.log.TimeIndex",
    (
        Field("timestamp", Int64, "Largest timestamp so far in the segment.", unit=MS_UNIT),
        _RELATIVE_OFFSET,
    ),
)

ABORTED_TRANSACTION = Layout(
    "AbortedTransaction",
    "An entry of `.txnindex`, which belongs to the segment with the ABORT marker.",
    "org.apache.kafka.storage.internals.log.AbortedTxn",
    (
        Field("version", Int16, "Version of the entry: 0."),
        Field("producer_id", Int64, "The transaction's producer."),
        Field("first_offset", Int64, "First offset of the transaction.", unit=OFFSET_UNIT),
        Field("last_offset", Int64, "Offset of its ABORT marker.", unit=OFFSET_UNIT),
        Field(
            "last_stable_offset",
            Int64,
            "First offset of the next transaction still open at that point, or the offset after "
            "the marker.",
        ),
    ),
)
