"""The objects of partition-of."""

from __future__ import annotations

from kfmt_cli.rows.column import RowType, number, text

PLACEMENT = RowType(
    "partition_of",
    "The partition of an internal topic that an id belongs to.",
    (
        text("id_type", "group or transactional_id."),
        text("id", "The id."),
        number("hash", "Its hash."),
        text("topic", "The internal topic."),
        number("partitions", "Number of partitions of the topic."),
        number("partition", "The partition."),
    ),
)
KEY_PLACEMENT = RowType(
    "partition_of_key",
    "The partition to which producers send a key.",
    (
        text("key", "The key, as given."),
        text("hex", "Its bytes."),
        text("partitioner", "The partitioner, by librdkafka's name."),
        number("hash", "Its hash."),
        number("partitions", "Number of partitions of the topic."),
        number("partition", "The partition."),
    ),
)
PLACEMENTS = (PLACEMENT, KEY_PLACEMENT)
