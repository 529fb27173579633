"""The rows of `pipeline stats`: totals of batches by topic, partition and producer."""

from __future__ import annotations

from kfmt_cli.rows.column import (
    Column,
    ColumnKind,
    RowType,
    milliseconds_column,
    number_column,
    real_column,
    text_column,
)

_TOPIC = Column("topic", ColumnKind.TEXT, "Topic; null for files in no partition directory.")
_COUNTS = (
    number_column("batches", "Batches."),
    number_column(
        "records", "Records declared in batch headers; each message of magic 0 or 1 counts as one."
    ),
    number_column("bytes", "Bytes of the batches."),
)
_TIMES = (
    milliseconds_column("first_time", "Smallest max timestamp of any batch."),
    milliseconds_column("last_time", "Largest max timestamp of any batch."),
)
_RECORDS_PER_BATCH = real_column("records_per_batch", "Average records per batch.")

COUNTED_TOPIC_ROW = RowType(
    "counted_topic",
    "One row per topic, the largest first.",
    (
        _TOPIC,
        number_column("partitions", "Partitions with batches."),
        *_COUNTS,
        _RECORDS_PER_BATCH,
        real_column("bytes_per_record", "Average bytes per record."),
        text_column("codecs", "Codecs found, joined by commas."),
        real_column("skew", "Bytes of the largest partition relative to the mean."),
        *_TIMES,
    ),
)
COUNTED_PARTITION_ROW = RowType(
    "counted_partition",
    "One row per partition.",
    (
        _TOPIC,
        Column("partition", doc="Partition; null for files in no partition directory.", n_bits=32),
        *_COUNTS,
        number_column("first_offset", "First offset."),
        number_column("last_offset", "Last offset."),
        *_TIMES,
    ),
)
COUNTED_PRODUCER_ROW = RowType(
    "counted_producer",
    "One row per producer of a topic, the largest first; control batches are not counted.",
    (
        _TOPIC,
        number_column("producer_id", "Producer id; null for batches without one."),
        *_COUNTS,
        _RECORDS_PER_BATCH,
        real_column("bytes_per_batch", "Average bytes per batch."),
        real_column("compressed", "Share of the batches that have a codec."),
        Column("last_epoch", doc="Largest producer epoch; null if there is none.", n_bits=32),
        *_TIMES,
    ),
)
STATS_ROW_BY_TABLE = {
    "topics": COUNTED_TOPIC_ROW,
    "partitions": COUNTED_PARTITION_ROW,
    "producers": COUNTED_PRODUCER_ROW,
}
"""By the names of the tables."""
