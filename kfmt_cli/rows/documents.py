"""The objects that commands output besides rows of tables, with their members declared once.

JSON, CSV, the Python API, Arrow and `docs/json.md` all derive from these types.
"""

from __future__ import annotations

from collections.abc import Mapping

from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.rows.column import (
    Placed,
    RowType,
    flag,
    json_value,
    milliseconds,
    number,
    real,
    text,
)


def members(type_: RowType, values: Mapping[str, object]) -> dict[str, object]:
    """The members of an object in the order of its type; raises KeyError for an unknown name.

    Members without a value are null, unless the type allows omitting them.
    """
    for name in values:
        if name not in type_.by_name:
            raise KeyError(f"{type_.name} has no {name}")
    return {
        column.name: values.get(column.name)
        for column in type_.columns
        if column.only is None or column.name in values
    }


def row_of(type_: RowType, of: object, known: Mapping[str, object]) -> dict[str, object]:
    """The members of an object: those that are known, others by the attributes of the same name."""
    names = (column.name for column in type_.columns)
    return {name: known[name] if name in known else getattr(of, name) for name in names}


COUNTED_FINDINGS = tuple(
    number(f"{severity}s", f"Findings of severity {severity}.") for severity in SEVERITIES
)
_PREDICTED_FOR = (
    text("kafka_version", "The version of Kafka that the prediction is for."),
    json_value("observed_on", "The releases of Kafka on which it was observed."),
)
_CODE = text("code", "Kind of finding.")
_SEVERITY = text("severity", "error, warning or note.")
_CONSEQUENCES = (
    text("after_crash", "What a broker does on the next start after a crash.", null=True),
    text(
        "after_clean_shutdown",
        "What a broker does on the next start after a clean shutdown.",
        null=True,
    ),
    text("advice", "What to do about it.", null=True),
)

FINDING = RowType(
    "finding",
    "A problem, or a fact worth knowing.",
    (
        text("file", "The file, or the directory."),
        _CODE,
        _SEVERITY,
        number("position", "Byte position it refers to.", null=True),
        number("offset", "Kafka offset it refers to.", null=True),
        text("message", "Description of what was found."),
        json_value("expected", "Expected value, if there is a single one.", null=True),
        json_value("found", "Actual value.", null=True),
        *_CONSEQUENCES,
    ),
    Placed.PARTITION,
)
FINDINGS_LEFT_OUT = RowType(
    "findings_left_out",
    "Findings counted but not shown because of --max-findings.",
    (
        text("file", "The file."),
        _CODE,
        _SEVERITY,
        number("count", "Number of findings not shown."),
    ),
    Placed.PARTITION,
)

# check
PARTITION = RowType(
    "partition",
    "A partition directory and its findings.",
    (
        text("file", "The directory."),
        number("segments", "Logs in it."),
        number("records", "Records in the logs."),
        number("bytes", "Bytes of the logs."),
        *COUNTED_FINDINGS,
    ),
    Placed.PARTITION,
)
BROKER_START = RowType(
    "broker_start",
    "Predicted outcome of a broker start for a partition or a log directory.",
    (
        text("file", "The directory."),
        text("after", "How the broker stopped: crash or clean-shutdown."),
        flag("starts", "Whether the broker starts."),
        text("reason", "Why it does not start.", null=True),
        number("log_start_offset", "Log start offset afterwards.", null=True),
        number("log_end_offset", "Log end offset.", null=True),
        json_value("cut", "Files it truncates, each with its new size."),
        json_value("deleted", "Files it deletes."),
        json_value("lost_offsets", "Offset ranges that are lost, as [first, last]."),
        json_value(
            "unreachable_offsets",
            "Offset ranges that stay on disk but cannot be read, as [first, last].",
        ),
        text(
            "becomes",
            "If it is not served: stray, offline or unserved; null otherwise.",
            null=True,
        ),
        *_PREDICTED_FOR,
    ),
    Placed.PARTITION,
)
NEXT_STEP = RowType(
    "next",
    "A suggested command and its cost.",
    (
        text("file", "The directory."),
        text("command", "The command, ready to paste."),
        text("price", "What it loses or changes."),
    ),
    Placed.PARTITION,
)
LOG_DIRECTORY = RowType(
    "log_directory",
    "The next start of a broker on a log directory.",
    (
        text("file", "The directory."),
        flag("starts", "Whether the broker starts."),
        text("reason", "Why it does not start.", null=True),
        text("becomes", "What it does with the directory if it starts without it.", null=True),
        text("retry", "What the start after a failed start would do.", null=True),
        text("next_start", "Kind of the next start: crash or clean-shutdown."),
        *_PREDICTED_FOR,
    ),
)

# stat
STATISTICS = RowType(
    "stat",
    "Statistics of a segment, partition or topic.",
    (
        text(
            "file", "Segment or partition; for a topic, the directory that contains its partitions."
        ),
        text("topic", "The topic.", null=True),
        number("partition", "The partition; null for a topic.", null=True),
        text("log_dir", "The log directory, if it is one.", null=True),
        number("segments", "Logs."),
        number("bytes", "Bytes of the logs."),
        number("batches", "Batches; null if --sample hit none.", null=True),
        number("records", "Records declared in batch headers.", null=True),
        real("records_per_batch", "Average records per batch.", null=True),
        real("bytes_per_batch", "Average bytes per batch.", null=True),
        real("bytes_per_record", "Average stored bytes per record.", null=True),
        json_value("codecs", "Number of batches per codec."),
        json_value("magics", "Number of batches per magic."),
        real(
            "compression_ratio",
            "Compression ratio: uncompressed bytes divided by stored bytes.",
            null=True,
        ),
        number("first_offset", "The first offset.", null=True),
        number("last_offset", "The last offset.", null=True),
        real("offset_density", "Ratio of records to the offset range they span.", null=True),
        milliseconds(
            "min_timestamp",
            "The smallest timestamp; without --deep, of the first records of batches.",
            null=True,
        ),
        milliseconds("max_timestamp", "The largest timestamp.", null=True),
        number(
            "timestamp_skew_ms",
            "Largest amount by which a timestamp is older than a previous one.",
            null=True,
        ),
        number("producers", "Producers with an id.", null=True),
        number("transactional_batches", "Batches of transactions.", null=True),
        number("control_batches", "Batches with a transaction marker.", null=True),
        number("null_keys", "Records without a key; null without --deep.", null=True),
        number("empty_keys", "Records with an empty key.", null=True),
        number("tombstones", "Records without a value.", null=True),
        json_value("records_histogram", "Histogram of records per batch, in powers of two."),
        json_value("bytes_histogram", "Histogram of batch sizes, in powers of two."),
        number("sampled_bytes", "With --sample: bytes read.", null=True),
        real(
            "sample_error",
            "Relative error of the total record count at 95 % confidence.",
            null=True,
        ),
    ),
)
DISK_USAGE = RowType(
    "disk_usage",
    "Disk usage under a directory, by purpose.",
    (
        text("file", "The directory."),
        text("purpose", "What the files are for."),
        number("files", "Number of files."),
        number("bytes", "Their sizes."),
        number("disk_bytes", "Space used on disk; holes in sparse files take none."),
        number("freed_now", "Logs: bytes that the next retention check frees.", null=True),
        number("freed_later", "Logs: bytes that retention will free later.", null=True),
        milliseconds("freed_by", "When the last of these will be freed.", null=True),
        number("freed_odd", "Logs: bytes kept much longer by timestamps in the future.", null=True),
        text("becomes", "What a broker does with them, if known.", null=True),
    ),
)
WHAT_IF = RowType(
    "what_if",
    "Result of recompressing a sample of the batches with another codec.",
    (
        text("codec", "The codec, and its level."),
        number("sample_bytes", "Bytes of the records in the sample."),
        number("stored_bytes", "Their stored bytes now."),
        number("would_be_bytes", "Their stored bytes with the other codec."),
        real("saved", "Fraction of bytes saved; negative if they would grow."),
        real("seconds", "How long it took to compress the sample."),
    ),
)

# retention, compaction, txn
RETENTION = RowType(
    "retention",
    "Whether and when retention deletes a segment.",
    (
        text("file", "The log."),
        number("base_offset", "Base offset, from the file name."),
        number("bytes", "Its bytes."),
        milliseconds("largest_timestamp", "Timestamp used for retention."),
        text("timestamp_source", "Source of that timestamp."),
        flag("active", "Whether it is the active segment."),
        flag("deletable", "Whether it can be deleted now."),
        milliseconds("deletable_at", "When it can be deleted.", null=True),
        flag("odd", "Whether that is so late only because of a timestamp in the future."),
        text("why", "The rule that decides."),
        json_value("settings", "The settings of the topic, and where each comes from."),
    ),
    Placed.FILE,
)
ROLL = RowType(
    "roll",
    "When the active segment rolls.",
    (
        text("file", "The log."),
        text("reason", "The setting that decides."),
        number("at_bytes", "The size at which it rolls."),
        milliseconds("at_time", "Earliest record timestamp that makes it roll.", null=True),
    ),
    Placed.FILE,
)
FREED = RowType(
    "freed",
    "Total bytes that retention frees.",
    (
        number("bytes_now", "Bytes that can be deleted now."),
        number("bytes_later", "Bytes that can be deleted later."),
        number("bytes_odd", "Bytes kept much longer because of timestamps in the future."),
    ),
)
COMPACTION = RowType(
    "compaction",
    "Predicted result of a log cleaner run for a partition.",
    (
        text("file", "The partition."),
        json_value("cleanup_policy", "The policy of its topic."),
        json_value("settings", "The settings of the topic, and where each comes from."),
        number("first_dirty_offset", "First dirty offset."),
        number("first_uncleanable_offset", "First uncleanable offset."),
        text("held_by", "What holds the cleaner back."),
        number("clean_bytes", "Bytes before the first dirty offset."),
        number("dirty_bytes", "Bytes that would be cleaned."),
        real("dirty_ratio", "Dirty ratio: dirty bytes divided by clean and dirty bytes."),
        flag("picked", "Whether the cleaner would pick the partition now."),
        text("never_because", "Why the cleaner never cleans it.", null=True),
        number("passes", "Number of cleaning passes, given the size of the offset map."),
        number("records_kept", "Records kept."),
        number("records_removed", "Records removed."),
        number("replaced", "Removed: superseded by a later record with the same key."),
        number("without_key", "Removed: without a key."),
        number("of_aborted_transactions", "Removed: from aborted transactions."),
        number("tombstones_kept", "Tombstones kept until their delete horizon."),
        number("markers_kept", "Transaction markers kept."),
        milliseconds("next_delete_horizon", "When the next of those can be removed.", null=True),
        number("segments_before", "Segments before."),
        number("segments_after", "Segments after."),
        json_value("remaining_offsets", "Offsets kept; null without --offsets.", null=True),
    ),
    Placed.PARTITION,
)
KEY_FATE = RowType(
    "key",
    "Fate of one record of the requested key in the next cleaning.",
    (
        text("file", "The log."),
        number("batch_position", "Position of its batch."),
        number("offset", "Its offset."),
        milliseconds("timestamp", "Its timestamp.", null=True),
        number("value_size", "Size of its value in bytes; -1 for a tombstone."),
        flag("stays", "Whether it is kept."),
        text("why", "The rule that decides."),
    ),
    Placed.FILE,
)
TRANSACTIONS = RowType(
    "transactions",
    "Transaction counts of a partition.",
    (
        text("file", "The partition."),
        number("committed", "Committed transactions."),
        number("aborted", "Aborted transactions."),
        number("open", "Transactions without a marker."),
        number("last_stable_offset", "Last stable offset."),
        number("log_end_offset", "Log end offset."),
    ),
    Placed.PARTITION,
)

# diff
DIFF = RowType(
    "diff",
    "Result of comparing two replicas.",
    (
        text("file", "A."),
        text("other", "B."),
        number("a_end", "Log end offset of A."),
        number("b_end", "Log end offset of B."),
        text("verdict", "identical, consistent, damaged, missing or diverged."),
        number("diverged_at", "First offset at which they differ.", null=True),
        text("later", "A or B: which of them has the later leader epoch.", null=True),
        number("a_latest_epoch", "Latest leader epoch of A, where they diverged.", only=True),
        number("b_latest_epoch", "Latest leader epoch of B, where they diverged.", only=True),
        number(
            "cut_to",
            "Offset to which the replica with the earlier epoch is truncated.",
            null=True,
            only=True,
        ),
    ),
    Placed.PARTITION,
)

# salvage
HOLE = RowType(
    "hole",
    "Bytes of a log that were dropped.",
    (
        text("file", "The log."),
        number("position", "Their first byte."),
        number("size", "Number of bytes."),
        number("batches", "Number of damaged batches in them."),
        number("first_offset", "First offset that may be missing.", null=True),
        number("last_offset", "Last offset that may be missing.", null=True),
        number("reencoded", "Records recovered from them into a batch of their own."),
        json_value("codes", "The kinds of findings there."),
        number("unread_bytes", "How many of them cannot be read; null if all can.", null=True),
    ),
    Placed.FILE,
)
MISSING_OFFSETS = RowType(
    "missing",
    "Offsets of a partition missing from the output.",
    (
        text("file", "The partition."),
        number("offsets", "Number of offsets."),
        json_value("ranges", "Their ranges, as [first, last]."),
    ),
    Placed.PARTITION,
)
REARRANGED = RowType(
    "rearranged",
    "Batches of a partition found in the wrong place.",
    (
        text("file", "The partition."),
        number("aside_batches", "Undamaged batches whose offsets conflict with the others."),
        text("aside", "Directory that contains those.", null=True),
        number("copies", "Duplicate batches, kept once."),
    ),
    Placed.PARTITION,
)

# index-check
LOOKUP = RowType(
    "lookup",
    "How a broker looks up an offset or a timestamp, step by step.",
    (
        text("file", "The log."),
        text("column", "offset or timestamp."),
        number("target", "The offset or timestamp to look up."),
        json_value("searches", "The binary searches in indexes, with their steps."),
        number("scan_from", "Byte at which the broker starts scanning the log.", null=True),
        number("n_scanned", "Batches it passes."),
        json_value("scanned", "The first of those."),
        json_value("batch", "The batch it finds.", null=True),
        text("error", "Why the lookup fails.", null=True),
        *_PREDICTED_FOR,
    ),
    Placed.PARTITION,
)

# explain, format, varints, dump
CODE = RowType(
    "code",
    "A kind of finding.",
    (
        _CODE,
        _SEVERITY,
        text("about", "Section of the list of findings."),
        text("meaning", "Its meaning."),
        *_CONSEQUENCES,
    ),
)
PAGE = RowType(
    "topic",
    "A page of kfmt explain.",
    (
        text("topic", "Its name."),
        text("title", "Its title."),
        json_value("parts", "Its paragraphs, and its tables as lists of lines.", only=True),
    ),
)
STEP = RowType(
    "step",
    "A step of a timing wheel.",
    (
        number("at", "The time in milliseconds."),
        text("kind", "What happens: a timer is added, moved or expires."),
        text("timer", "The timer."),
        number("level", "Level of the wheel; 0 is the finest.", null=True),
        number("bucket", "The bucket of the wheel.", null=True),
        number("looked_at", "When the bucket expires.", null=True),
    ),
)
FORMAT = RowType(
    "format",
    "A format that kfmt reads.",
    (
        text("name", "Its name."),
        text("chapter", "Chapter of the list of formats."),
        number("size", "Its size in bytes; null if it varies.", null=True),
        json_value("versions", "The first and the last version of a message.", null=True),
        number("flexible_since", "The first version with tagged fields.", null=True),
        text("meaning", "Its description."),
        text("source", "Where Kafka defines it."),
    ),
)
FORMAT_FIELD = RowType(
    "format_field",
    "A field of a format.",
    (
        text("format", "The format."),
        number("offset", "Byte position where it starts; null if it varies.", null=True),
        text("field", "Its name, after the names of the structures that contain it."),
        text("wire_type", "Its type."),
        text("bits", "Which bits of the field it is.", null=True),
        text("versions", "Versions that have it, if not all.", null=True),
        text("meaning", "Its meaning."),
    ),
)
VARINT = RowType(
    "varint",
    "A varint.",
    (
        text("encoding", "Its type."),
        number("value", "The number."),
        number("zigzag", "The number after zigzag; null without it.", null=True),
        text("hex", "Its bytes."),
        number("size", "Number of bytes."),
    ),
)
UNKNOWN_FILE = RowType(
    "unknown_file",
    "A file in a directory that kfmt does not recognise.",
    (
        text("file", "The file."),
        number("bytes", "Its size.", null=True),
    ),
)
QUERY_ROW = RowType(
    "row",
    "A row of the result of `kfmt sql`: the columns of the query under their names.",
    (),
    Placed.NO_FILE,
)
