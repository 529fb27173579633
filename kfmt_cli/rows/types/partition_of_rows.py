"""The objects of partition-of."""

from __future__ import annotations

from kfmt_cli.rows.column import RowType, number_column, text_column

PLACEMENT_ROW = RowType(
    "partition_of",
    "The partition of an internal topic that an id belongs to.",
    (
        text_column("id_type", "group or transactional_id."),
        text_column("id", "The id."),
        number_column("hash", "Its hash."),
        text_column("topic", "The internal topic."),
        number_column("partitions", "Number of partitions of the topic."),
        number_column("partition", "The partition."),
    ),
)
KEY_PLACEMENT_ROW = RowType(
    "partition_of_key",
    "The partition to which producers send a key.",
    (
        text_column("key", "The key, as given."),
        text_column("hex", "Its bytes."),
        text_column("partitioner", "The partitioner, by librdkafka's name."),
        number_column("hash", "Its hash."),
        number_column("partitions", "Number of partitions of the topic."),
        number_column("partition", "The partition."),
    ),
)
PLACEMENT_ROWS = (PLACEMENT_ROW, KEY_PLACEMENT_ROW)
