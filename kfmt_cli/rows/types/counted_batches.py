"""The rows of `pipeline stats`: totals of batches by topic, partition and producer."""

from __future__ import annotations

from kfmt_cli.rows.column import Column, ColumnKind, RowType, milliseconds, number, real, text

_TOPIC = Column("topic", ColumnKind.TEXT, "Topic; null for files in no partition directory.")
_COUNTS = (
    number("batches", "Batches."),
    number(
        "records", "Records declared in batch headers; each message of magic 0 or 1 counts as one."
    ),
    number("bytes", "Bytes of the batches."),
)
_TIMES = (
    milliseconds("first_time", "Smallest max timestamp of any batch."),
    milliseconds("last_time", "Largest max timestamp of any batch."),
)
_RECORDS_PER_BATCH = real("records_per_batch", "Average records per batch.")

COUNTED_TOPIC = RowType(
    "counted_topic",
    "One row per topic, the largest first.",
    (
        _TOPIC,
        number("partitions", "Partitions with batches."),
        *_COUNTS,
        _RECORDS_PER_BATCH,
        real("bytes_per_record", "Average bytes per record."),
        text("codecs", "Codecs found, joined by commas."),
        real("skew", "Bytes of the largest partition relative to the mean."),
        *_TIMES,
    ),
)
COUNTED_PARTITION = RowType(
    "counted_partition",
    "One row per partition.",
    (
        _TOPIC,
        Column("partition", doc="Partition; null for files in no partition directory.", bits=32),
        *_COUNTS,
        number("first_offset", "First offset."),
        number("last_offset", "Last offset."),
        *_TIMES,
    ),
)
COUNTED_PRODUCER = RowType(
    "counted_producer",
    "One row per producer of a topic, the largest first; control batches are not counted.",
    (
        _TOPIC,
        number("producer_id", "Producer id; null for batches without one."),
        *_COUNTS,
        _RECORDS_PER_BATCH,
        real("bytes_per_batch", "Average bytes per batch."),
        real("compressed", "Share of the batches that have a codec."),
        Column("last_epoch", doc="Largest producer epoch; null if there is none.", bits=32),
        *_TIMES,
    ),
)
COUNTED = {
    "topics": COUNTED_TOPIC,
    "partitions": COUNTED_PARTITION,
    "producers": COUNTED_PRODUCER,
}
"""By the names of the tables."""
