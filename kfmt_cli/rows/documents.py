"""The objects that commands output besides rows of tables, with their members declared once.

JSON, CSV, the Python API, Arrow and `docs/json.md` all derive from these types.
"""

from __future__ import annotations

from collections.abc import Mapping

from kfmt_cli.findings.finding import SEVERITIES
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


def build_members(row_type: RowType, value_by_member: Mapping[str, object]) -> dict[str, object]:
    """The members of an object in the order of its type; raises KeyError for an unknown name.

    Members without a value are null, unless the type allows omitting them.
    """
    for member_name in value_by_member:
        if member_name not in row_type.leaf_by_name:
            raise KeyError(f"{row_type.name} has no {member_name}")
    return {
        column.name: value_by_member.get(column.name)
        for column in row_type.columns
        if column.present_if is None or column.name in value_by_member
    }


def build_row(
    row_type: RowType, source: object, overrides: Mapping[str, object]
) -> dict[str, object]:
    """The members of an object, from `overrides` or else the source's attributes of that name."""
    member_names = (column.name for column in row_type.columns)
    return {
        member_name: overrides[member_name]
        if member_name in overrides
        else getattr(source, member_name)
        for member_name in member_names
    }


SEVERITY_COUNT_COLUMNS = tuple(
    number_column(f"{severity}s", f"Findings of severity {severity}.") for severity in SEVERITIES
)
_PREDICTION_COLUMNS = (
    text_column("kafka_version", "The version of Kafka that the prediction is for."),
    json_column("observed_on", "The releases of Kafka on which it was observed."),
)
CODE_COLUMN = text_column("code", "Kind of finding.")
SEVERITY_COLUMN = text_column("severity", "error, warning or note.")
CONSEQUENCE_COLUMNS = (
    text_column(
        "after_crash", "What a broker does on the next start after a crash.", can_be_null=True
    ),
    text_column(
        "after_clean_shutdown",
        "What a broker does on the next start after a clean shutdown.",
        can_be_null=True,
    ),
    text_column("advice", "What to do about it.", can_be_null=True),
)

FINDING_ROW = RowType(
    "finding",
    "A problem, or a fact worth knowing.",
    (
        text_column("file", "The file, or the directory."),
        CODE_COLUMN,
        SEVERITY_COLUMN,
        number_column("position", "Byte position it refers to.", can_be_null=True),
        number_column("offset", "Kafka offset it refers to.", can_be_null=True),
        text_column("message", "Description of what was found."),
        json_column("expected", "Expected value, if there is a single one.", can_be_null=True),
        json_column("found", "Actual value.", can_be_null=True),
        *CONSEQUENCE_COLUMNS,
    ),
    LocationSource.PARTITION,
)
SUPPRESSED_FINDINGS_ROW = RowType(
    "findings_left_out",
    "Findings counted but not shown because of --max-findings.",
    (
        text_column("file", "The file."),
        CODE_COLUMN,
        SEVERITY_COLUMN,
        number_column("count", "Number of findings not shown."),
    ),
    LocationSource.PARTITION,
)

# check
PARTITION_ROW = RowType(
    "partition",
    "A partition directory and its findings.",
    (
        text_column("file", "The directory."),
        number_column("segments", "Logs in it."),
        number_column("records", "Records in the logs."),
        number_column("bytes", "Bytes of the logs."),
        *SEVERITY_COUNT_COLUMNS,
    ),
    LocationSource.PARTITION,
)
BROKER_START_ROW = RowType(
    "broker_start",
    "Predicted outcome of a broker start for a partition or a log directory.",
    (
        text_column("file", "The directory."),
        text_column("after", "How the broker stopped: crash or clean-shutdown."),
        flag_column("starts", "Whether the broker starts."),
        text_column("reason", "Why it does not start.", can_be_null=True),
        number_column("log_start_offset", "Log start offset afterwards.", can_be_null=True),
        number_column("log_end_offset", "Log end offset.", can_be_null=True),
        json_column("cut", "Files it truncates, each with its new size."),
        json_column("deleted", "Files it deletes."),
        json_column("lost_offsets", "Offset ranges that are lost, as [first, last]."),
        json_column(
            "unreachable_offsets",
            "Offset ranges that stay on disk but cannot be read, as [first, last].",
        ),
        text_column(
            "becomes",
            "If it is not served: stray, offline or unserved; null otherwise.",
            can_be_null=True,
        ),
        *_PREDICTION_COLUMNS,
    ),
    LocationSource.PARTITION,
)
NEXT_STEP_ROW = RowType(
    "next",
    "A suggested command and its cost.",
    (
        text_column("file", "The directory."),
        text_column("command", "The command, ready to paste."),
        text_column("price", "What it loses or changes."),
    ),
    LocationSource.PARTITION,
)
LOG_DIRECTORY_ROW = RowType(
    "log_directory",
    "The next start of a broker on a log directory.",
    (
        text_column("file", "The directory."),
        flag_column("starts", "Whether the broker starts."),
        text_column("reason", "Why it does not start.", can_be_null=True),
        text_column(
            "becomes", "What it does with the directory if it starts without it.", can_be_null=True
        ),
        text_column("retry", "What the start after a failed start would do.", can_be_null=True),
        text_column("next_start", "Kind of the next start: crash or clean-shutdown."),
        *_PREDICTION_COLUMNS,
    ),
)

# stat
STATISTICS_ROW = RowType(
    "stat",
    "Statistics of a segment, partition or topic.",
    (
        text_column(
            "file", "Segment or partition; for a topic, the directory that contains its partitions."
        ),
        text_column("topic", "The topic.", can_be_null=True),
        number_column("partition", "The partition; null for a topic.", can_be_null=True),
        text_column("log_dir", "The log directory, if it is one.", can_be_null=True),
        number_column("segments", "Logs."),
        number_column("bytes", "Bytes of the logs."),
        number_column("batches", "Batches; null if --sample hit none.", can_be_null=True),
        number_column("records", "Records declared in batch headers.", can_be_null=True),
        real_column("records_per_batch", "Average records per batch.", can_be_null=True),
        real_column("bytes_per_batch", "Average bytes per batch.", can_be_null=True),
        real_column("bytes_per_record", "Average stored bytes per record.", can_be_null=True),
        json_column("codecs", "Number of batches per codec."),
        json_column("magics", "Number of batches per magic."),
        real_column(
            "compression_ratio",
            "Compression ratio: uncompressed bytes divided by stored bytes.",
            can_be_null=True,
        ),
        number_column("first_offset", "The first offset.", can_be_null=True),
        number_column("last_offset", "The last offset.", can_be_null=True),
        real_column(
            "offset_density", "Ratio of records to the offset range they span.", can_be_null=True
        ),
        milliseconds_column(
            "min_timestamp",
            "The smallest timestamp; without --deep, of the first records of batches.",
            can_be_null=True,
        ),
        milliseconds_column("max_timestamp", "The largest timestamp.", can_be_null=True),
        number_column(
            "timestamp_skew_ms",
            "Largest amount by which a timestamp is older than a previous one.",
            can_be_null=True,
        ),
        number_column("producers", "Producers with an id.", can_be_null=True),
        number_column("transactional_batches", "Batches of transactions.", can_be_null=True),
        number_column("control_batches", "Batches with a transaction marker.", can_be_null=True),
        number_column("null_keys", "Records without a key; null without --deep.", can_be_null=True),
        number_column("empty_keys", "Records with an empty key.", can_be_null=True),
        number_column("tombstones", "Records without a value.", can_be_null=True),
        json_column("records_histogram", "Histogram of records per batch, in powers of two."),
        json_column("bytes_histogram", "Histogram of batch sizes, in powers of two."),
        number_column("sampled_bytes", "With --sample: bytes read.", can_be_null=True),
        real_column(
            "sample_error",
            "Relative error of the total record count at 95 % confidence.",
            can_be_null=True,
        ),
    ),
)
DISK_USAGE_ROW = RowType(
    "disk_usage",
    "Disk usage under a directory, by purpose.",
    (
        text_column("file", "The directory."),
        text_column("purpose", "What the files are for."),
        number_column("files", "Number of files."),
        number_column("bytes", "Their sizes."),
        number_column("disk_bytes", "Space used on disk; holes in sparse files take none."),
        number_column(
            "freed_now", "Logs: bytes that the next retention check frees.", can_be_null=True
        ),
        number_column(
            "freed_later", "Logs: bytes that retention will free later.", can_be_null=True
        ),
        milliseconds_column("freed_by", "When the last of these will be freed.", can_be_null=True),
        number_column(
            "freed_odd",
            "Logs: bytes kept much longer by timestamps in the future.",
            can_be_null=True,
        ),
        text_column("becomes", "What a broker does with them, if known.", can_be_null=True),
    ),
)
WHAT_IF_ROW = RowType(
    "what_if",
    "Result of recompressing a sample of the batches with another codec.",
    (
        text_column("codec", "The codec, and its level."),
        number_column("sample_bytes", "Bytes of the records in the sample."),
        number_column("stored_bytes", "Their stored bytes now."),
        number_column("would_be_bytes", "Their stored bytes with the other codec."),
        real_column("saved", "Fraction of bytes saved; negative if they would grow."),
        real_column("seconds", "How long it took to compress the sample."),
    ),
)

# retention, compaction, txn
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
KEY_OUTCOME_ROW = RowType(
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
TRANSACTIONS_ROW = RowType(
    "transactions",
    "Transaction counts of a partition.",
    (
        text_column("file", "The partition."),
        number_column("committed", "Committed transactions."),
        number_column("aborted", "Aborted transactions."),
        number_column("open", "Transactions without a marker."),
        number_column("last_stable_offset", "Last stable offset."),
        number_column("log_end_offset", "Log end offset."),
    ),
    LocationSource.PARTITION,
)

# diff
DIFF_ROW = RowType(
    "diff",
    "Result of comparing two replicas.",
    (
        text_column("file", "A."),
        text_column("other", "B."),
        number_column("a_end", "Log end offset of A."),
        number_column("b_end", "Log end offset of B."),
        text_column("verdict", "identical, consistent, damaged, missing or diverged."),
        number_column("diverged_at", "First offset at which they differ.", can_be_null=True),
        text_column("later", "A or B: which of them has the later leader epoch.", can_be_null=True),
        number_column(
            "a_latest_epoch", "Latest leader epoch of A, where they diverged.", can_be_absent=True
        ),
        number_column(
            "b_latest_epoch", "Latest leader epoch of B, where they diverged.", can_be_absent=True
        ),
        number_column(
            "cut_to",
            "Offset to which the replica with the earlier epoch is truncated.",
            can_be_null=True,
            can_be_absent=True,
        ),
    ),
    LocationSource.PARTITION,
)

# salvage
HOLE_ROW = RowType(
    "hole",
    "Bytes of a log that were dropped.",
    (
        text_column("file", "The log."),
        number_column("position", "Their first byte."),
        number_column("size", "Number of bytes."),
        number_column("batches", "Number of damaged batches in them."),
        number_column("first_offset", "First offset that may be missing.", can_be_null=True),
        number_column("last_offset", "Last offset that may be missing.", can_be_null=True),
        number_column("reencoded", "Records recovered from them into a batch of their own."),
        json_column("codes", "The kinds of findings there."),
        number_column(
            "unread_bytes", "How many of them cannot be read; null if all can.", can_be_null=True
        ),
    ),
    LocationSource.FILE,
)
MISSING_OFFSETS_ROW = RowType(
    "missing",
    "Offsets of a partition missing from the output.",
    (
        text_column("file", "The partition."),
        number_column("offsets", "Number of offsets."),
        json_column("ranges", "Their ranges, as [first, last]."),
    ),
    LocationSource.PARTITION,
)
REARRANGED_ROW = RowType(
    "rearranged",
    "Batches of a partition found in the wrong place.",
    (
        text_column("file", "The partition."),
        number_column("aside_batches", "Undamaged batches whose offsets conflict with the others."),
        text_column("aside", "Directory that contains those.", can_be_null=True),
        number_column("copies", "Duplicate batches, kept once."),
    ),
    LocationSource.PARTITION,
)

# index-check
LOOKUP_ROW = RowType(
    "lookup",
    "How a broker looks up an offset or a timestamp, step by step.",
    (
        text_column("file", "The log."),
        text_column("column", "offset or timestamp."),
        number_column("target", "The offset or timestamp to look up."),
        json_column("searches", "The binary searches in indexes, with their steps."),
        number_column(
            "scan_from", "Byte at which the broker starts scanning the log.", can_be_null=True
        ),
        number_column("n_scanned", "Batches it passes."),
        json_column("scanned", "The first of those."),
        json_column("batch", "The batch it finds.", can_be_null=True),
        text_column("error", "Why the lookup fails.", can_be_null=True),
        *_PREDICTION_COLUMNS,
    ),
    LocationSource.PARTITION,
)
