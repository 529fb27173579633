"""The indexes next to a log: offset → byte, timestamp → offset, aborted transactions.

None of them has a header or a checksum: a file is entries, one after the other.

Source: `org.apache.kafka.storage.internals.log.OffsetIndex`, `TimeIndex`, `AbortedTxn`.
"""

from kfmt_cli.core.layout.field import BYTE, MILLISECONDS, OFFSET, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire import Int16, Int32, Int64

MAX_RELATIVE_OFFSET = (1 << 31) - 1
_RELATIVE_OFFSET = Field(
    "relative_offset", Int32, "Offset, counted from the base offset in the file's name."
)

OFFSET_INDEX_ENTRY = Layout(
    "OffsetIndexEntry",
    "An entry of `.index`: the batch at this byte of the log is a good one to begin a search for "
    "this offset, or a later one, at.",
    "org.apache.kafka.storage.internals.log.OffsetIndex",
    (
        _RELATIVE_OFFSET,
        Field("log_position", Int32, "Byte in the log where a batch begins.", unit=BYTE),
    ),
)

TIME_INDEX_ENTRY = Layout(
    "TimeIndexEntry",
    "An entry of `.timeindex`: up to this offset, no record is younger than this.",
    "org.apache.kafka.storage.internals.log.TimeIndex",
    (
        Field("timestamp", Int64, "The largest so far in the segment.", unit=MILLISECONDS),
        _RELATIVE_OFFSET,
    ),
)

ABORTED_TRANSACTION = Layout(
    "AbortedTransaction",
    "An entry of `.txnindex`, which lies next to the segment that holds the ABORT marker.",
    "org.apache.kafka.storage.internals.log.AbortedTxn",
    (
        Field("version", Int16, "Version of the entry: 0."),
        Field("producer_id", Int64, "The transaction's producer."),
        Field("first_offset", Int64, "First offset of the transaction.", unit=OFFSET),
        Field("last_offset", Int64, "Offset of its ABORT marker.", unit=OFFSET),
        Field(
            "last_stable_offset",
            Int64,
            "First offset of the next transaction that was still open then, else the offset "
            "after the marker.",
        ),
    ),
)
