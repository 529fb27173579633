"""The objects of `retention` and `compaction`."""

from __future__ import annotations

from kfmt_cli.rows.column import (
    LocationSource,
    RowType,
    flag_column,
    json_column,
    milliseconds_column,
    number_column,
    real_column,
    text_column,
)

RETENTION_ROW = RowType(
    "retention",
    "Whether and when retention deletes a segment.",
    (
        text_column("file", "The log."),
        number_column("base_offset", "Base offset, from the file name."),
        number_column("bytes", "Its bytes."),
        milliseconds_column("largest_timestamp", "Timestamp used for retention."),
        text_column("timestamp_source", "Source of that timestamp."),
        flag_column("active", "Whether it is the active segment."),
        flag_column("deletable", "Whether it can be deleted now."),
        milliseconds_column("deletable_at", "When it can be deleted.", can_be_null=True),
        flag_column("odd", "Whether that is so late only because of a timestamp in the future."),
        text_column("why", "The rule that decides."),
        json_column("settings", "The settings of the topic, and where each comes from."),
    ),
    LocationSource.FILE,
)


ROLL_ROW = RowType(
    "roll",
    "When the active segment rolls.",
    (
        text_column("file", "The log."),
        text_column("reason", "The setting that decides."),
        number_column("at_bytes", "The size at which it rolls."),
        milliseconds_column(
            "at_time", "Earliest record timestamp that makes it roll.", can_be_null=True
        ),
    ),
    LocationSource.FILE,
)


FREED_ROW = RowType(
    "freed",
    "Total bytes that retention frees.",
    (
        number_column("bytes_now", "Bytes that can be deleted now."),
        number_column("bytes_later", "Bytes that can be deleted later."),
        number_column("bytes_odd", "Bytes kept much longer because of timestamps in the future."),
    ),
)


COMPACTION_ROW = RowType(
    "compaction",
    "Predicted result of a log cleaner run for a partition.",
    (
        text_column("file", "The partition."),
        json_column("cleanup_policy", "The policy of its topic."),
        json_column("settings", "The settings of the topic, and where each comes from."),
        number_column("first_dirty_offset", "First dirty offset."),
        number_column("first_uncleanable_offset", "First uncleanable offset."),
        text_column("held_by", "What holds the cleaner back."),
        number_column("clean_bytes", "Bytes before the first dirty offset."),
        number_column("dirty_bytes", "Bytes that would be cleaned."),
        real_column("dirty_ratio", "Dirty ratio: dirty bytes divided by clean and dirty bytes."),
        flag_column("picked", "Whether the cleaner would pick the partition now."),
        text_column("never_because", "Why the cleaner never cleans it.", can_be_null=True),
        number_column("passes", "Number of cleaning passes, given the size of the offset map."),
        number_column("records_kept", "Records kept."),
        number_column("records_removed", "Records removed."),
        number_column("replaced", "Removed: superseded by a later record with the same key."),
        number_column("without_key", "Removed: without a key."),
        number_column("of_aborted_transactions", "Removed: from aborted transactions."),
        number_column("tombstones_kept", "Tombstones kept until their delete horizon."),
        number_column("markers_kept", "Transaction markers kept."),
        milliseconds_column(
            "next_delete_horizon", "When the next of those can be removed.", can_be_null=True
        ),
        number_column("segments_before", "Segments before."),
        number_column("segments_after", "Segments after."),
        json_column("remaining_offsets", "Offsets kept; null without --offsets.", can_be_null=True),
    ),
    LocationSource.PARTITION,
)


KEY_FATE_ROW = RowType(
    "key",
    "Fate of one record of the requested key in the next cleaning.",
    (
        text_column("file", "The log."),
        number_column("batch_position", "Position of its batch."),
        number_column("offset", "Its offset."),
        milliseconds_column("timestamp", "Its timestamp.", can_be_null=True),
        number_column("value_size", "Size of its value in bytes; -1 for a tombstone."),
        flag_column("stays", "Whether it is kept."),
        text_column("why", "The rule that decides."),
    ),
    LocationSource.FILE,
)
