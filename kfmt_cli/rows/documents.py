"""The objects that commands say besides rows of tables: their members are declared here, once.

Whatever is written of them, JSON, CSV, the Python API, Arrow and `docs/json.md`, follows from here.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    """The members of an object in the order of its type; raises KeyError for one that it has not.

    What has no value is null, unless its type says that it may be left out.
    """
    for name in values:
        if name not in type_.by_name:
            raise KeyError(f"{type_.name} has no {name}")
    return {
        column.name: values.get(column.name)
        for column in type_.columns
        if column.only is None or column.name in values
    }


_OBSERVED_ON = json_value(
    "observed_on", "The versions of Kafka on which the prediction was observed."
)
_CODE = text("code", "The kind of finding.")
_SEVERITY = text("severity", "error, warning or note.")
_CONSEQUENCES = (
    text("after_crash", "What a broker makes of it that starts after a crash.", null=True),
    text(
        "after_clean_shutdown",
        "What a broker makes of it that starts after a clean shutdown.",
        null=True,
    ),
    text("advice", "What can be done about it.", null=True),
)

FINDING = RowType(
    "finding",
    "Something that is wrong, or worth knowing.",
    (
        text("file", "The file, or the directory."),
        _CODE,
        _SEVERITY,
        number("position", "The byte that it is about.", null=True),
        number("offset", "The offset that it is about.", null=True),
        text("message", "What was found, in words."),
        json_value("expected", "What should be there, where that is one value.", null=True),
        json_value("found", "What is there instead.", null=True),
        *_CONSEQUENCES,
    ),
    Placed.PARTITION,
)
FINDINGS_LEFT_OUT = RowType(
    "findings_left_out",
    "Findings that are counted and not shown, as there are more than --max-findings.",
    (
        text("file", "The file."),
        _CODE,
        _SEVERITY,
        number("count", "How many of them are not shown."),
    ),
    Placed.PARTITION,
)

# check
PARTITION = RowType(
    "partition",
    "A partition's directory, and what was found in it.",
    (
        text("file", "The directory."),
        number("segments", "Logs in it."),
        number("records", "Records in the logs."),
        number("bytes", "Bytes of the logs."),
        number("errors", "Findings of severity error."),
        number("warnings", "Findings of severity warning."),
        number("notes", "Findings of severity note."),
    ),
    Placed.PARTITION,
)
BROKER_START = RowType(
    "broker_start",
    "What a broker would make of a partition, or of a log directory, when it starts.",
    (
        text("file", "The directory."),
        text("after", "How the broker stopped: crash or clean_shutdown."),
        flag("starts", "Whether the broker starts."),
        text("reason", "Why it does not.", null=True),
        number("log_start_offset", "First offset that it serves afterwards.", null=True),
        number("log_end_offset", "The offset after the last.", null=True),
        json_value("cut", "The files that it cuts, each with the size that is left."),
        json_value("deleted", "The files that it deletes."),
        json_value(
            "lost_offsets", "Ranges of offsets that are gone afterwards, each first and last."
        ),
        json_value(
            "unreachable_offsets",
            "Ranges of offsets that stay on the disk and cannot be read, each first and last.",
        ),
        text("becomes", "The name that it gives the directory.", null=True),
        _OBSERVED_ON,
    ),
    Placed.PARTITION,
)
NEXT_STEP = RowType(
    "next",
    "A command that would help, and what it costs.",
    (
        text("file", "The directory."),
        text("command", "The command, ready to paste."),
        text("price", "What is lost or changed by it."),
    ),
    Placed.PARTITION,
)
LOG_DIRECTORY = RowType(
    "log_directory",
    "The next start of a broker on a log directory.",
    (
        text("file", "The directory."),
        flag("starts", "Whether the broker starts."),
        text("reason", "Why it does not.", null=True),
        text("becomes", "What it does with the directory if it starts without it.", null=True),
        text("retry", "What a further start would do.", null=True),
        text("next_start", "How the next start is: after_crash or after_clean_shutdown."),
        _OBSERVED_ON,
    ),
)

# stat
STATISTICS = RowType(
    "stat",
    "Numbers about a segment, a partition or a topic.",
    (
        text("file", "What they are about; of a topic, the directory that its partitions lie in."),
        text("topic", "The topic.", null=True),
        number("partition", "The partition; null for a topic.", null=True),
        text("log_dir", "The log directory, where it is one.", null=True),
        number("segments", "Logs."),
        number("bytes", "Bytes of the logs."),
        number("batches", "Batches; null where --sample met none.", null=True),
        number("records", "Records, as the headers of batches count them.", null=True),
        real("records_per_batch", "Records of a batch, on average.", null=True),
        real("bytes_per_batch", "Bytes of a batch, on average.", null=True),
        real("bytes_per_record", "Bytes of a record as stored, on average.", null=True),
        json_value("codecs", "Of each codec: how many batches."),
        json_value("magics", "Of each magic: how many batches."),
        real("compression_ratio", "Bytes of records by their bytes as stored.", null=True),
        number("first_offset", "The first offset.", null=True),
        number("last_offset", "The last offset.", null=True),
        real("offset_density", "Records by the offsets that they span.", null=True),
        milliseconds("min_timestamp", "The smallest timestamp.", null=True),
        milliseconds("max_timestamp", "The largest timestamp.", null=True),
        number(
            "timestamp_skew_ms",
            "By how much a timestamp is at most before an earlier one.",
            null=True,
        ),
        number("producers", "Producers with an id.", null=True),
        number("transactional_batches", "Batches of transactions.", null=True),
        number("control_batches", "Batches with the marker of a transaction.", null=True),
        number("null_keys", "Records without a key; null without --deep.", null=True),
        number("empty_keys", "Records whose key has no bytes.", null=True),
        number("tombstones", "Records without a value.", null=True),
        json_value("records_histogram", "Batches by their records, in powers of two."),
        json_value("bytes_histogram", "Batches by their bytes, in powers of two."),
        number("sampled_bytes", "With --sample: bytes that were looked at.", null=True),
        real(
            "sample_error",
            "By which part of them the records of all may be wrong, in 95 of 100 samples.",
            null=True,
        ),
    ),
)
DISK_USAGE = RowType(
    "disk_usage",
    "What fills the disk below a directory, by what it is for.",
    (
        text("file", "The directory."),
        text("purpose", "What the files are for."),
        number("files", "How many there are."),
        number("bytes", "Their sizes."),
        number("disk_bytes", "What they take on the disk, where holes take nothing."),
        number("freed_now", "Of logs: bytes that the next check of retention frees.", null=True),
        number("freed_later", "Of logs: bytes that go later, as they get older.", null=True),
        milliseconds("freed_by", "When the last of these go.", null=True),
        text("becomes", "What a broker does about them, where that is known.", null=True),
    ),
)
WHAT_IF = RowType(
    "what_if",
    "What another codec would make of a sample of the batches.",
    (
        text("codec", "The codec, and its level."),
        number("sample_bytes", "Bytes of the records in the sample."),
        number("stored_bytes", "Bytes that they take now."),
        number("would_be_bytes", "Bytes that they would take."),
        real("saved", "The part of the bytes that would be saved; below 0, they would grow."),
        real("seconds", "How long it took to compress the sample."),
    ),
)

# retention, compaction, txn
RETENTION = RowType(
    "retention",
    "Whether a broker's retention deletes a segment, and when.",
    (
        text("file", "The log."),
        number("base_offset", "Its first offset, by its name."),
        number("bytes", "Its bytes."),
        milliseconds("largest_timestamp", "The time that retention goes by."),
        text("timestamp_source", "Where that time is from."),
        flag("active", "Whether it is the segment that is written to."),
        flag("deletable", "Whether it goes now."),
        milliseconds("deletable_at", "When it goes.", null=True),
        text("why", "The rule that decides."),
        json_value("settings", "The settings of the topic, and where each comes from."),
    ),
    Placed.FILE,
)
ROLL = RowType(
    "roll",
    "When the active segment is rolled.",
    (
        text("file", "The log."),
        text("reason", "The setting that decides."),
        number("at_bytes", "The size at which it is rolled."),
        milliseconds("at_time", "The time of the record with which it is rolled.", null=True),
    ),
    Placed.FILE,
)
FREED = RowType(
    "freed",
    "What retention frees in all.",
    (
        number("bytes_now", "Bytes that go now."),
        number("bytes_later", "Bytes that go later."),
    ),
)
COMPACTION = RowType(
    "compaction",
    "What a run of the log cleaner would make of a partition.",
    (
        text("file", "The partition."),
        json_value("cleanup_policy", "The policy of its topic."),
        json_value("settings", "The settings of the topic, and where each comes from."),
        number("first_dirty_offset", "First offset that was not cleaned yet."),
        number("first_uncleanable_offset", "First offset that may not be cleaned now."),
        text("held_by", "What keeps the cleaner from going further."),
        number("clean_bytes", "Bytes before the first dirty offset."),
        number("dirty_bytes", "Bytes that would be cleaned."),
        real("dirty_ratio", "The dirty bytes by both."),
        flag("picked", "Whether the cleaner would take the partition now."),
        text("never_because", "Why it never would.", null=True),
        number("passes", "How many runs it takes, as the offset map is of limited size."),
        number("records_kept", "Records that stay."),
        number("records_removed", "Records that go."),
        number("replaced", "Of those that go: replaced by a later record of their key."),
        number("without_key", "Of those that go: without a key."),
        number("of_aborted_transactions", "Of those that go: of aborted transactions."),
        number("tombstones_kept", "Tombstones that stay until their time has come."),
        number("markers_kept", "Markers of transactions that stay."),
        milliseconds("next_delete_horizon", "When the next of those may go.", null=True),
        number("segments_before", "Segments before."),
        number("segments_after", "Segments after."),
        json_value(
            "remaining_offsets", "The offsets that stay; null without --offsets.", null=True
        ),
    ),
    Placed.PARTITION,
)
KEY_FATE = RowType(
    "key",
    "What the cleaner makes of a record of the key that was asked for.",
    (
        text("file", "The log."),
        number("batch_position", "First byte of its batch."),
        number("offset", "Its offset."),
        milliseconds("timestamp", "Its timestamp.", null=True),
        number("value_size", "Bytes of its value, -1 of a tombstone."),
        flag("stays", "Whether it stays."),
        text("why", "The rule that decides."),
    ),
    Placed.FILE,
)
TRANSACTIONS = RowType(
    "transactions",
    "The transactions of a partition, counted.",
    (
        text("file", "The partition."),
        number("committed", "Those that were committed."),
        number("aborted", "Those that were aborted."),
        number("open", "Those without a marker."),
        number("last_stable_offset", "Up to which read_committed reads."),
        number("log_end_offset", "The offset after the last."),
    ),
    Placed.PARTITION,
)

# diff
DIFF = RowType(
    "diff",
    "What the comparison of two replicas comes to.",
    (
        text("file", "A."),
        text("other", "B."),
        number("a_end", "End of A's log."),
        number("b_end", "End of B's log."),
        text("verdict", "identical, consistent, damaged, missing or diverged."),
        number("diverged_at", "First offset at which they differ.", null=True),
        text("later", "A or B: which of them has the later leader epoch.", null=True),
        number("a_latest_epoch", "Latest leader epoch of A, where they diverged.", only=True),
        number("b_latest_epoch", "Latest leader epoch of B, where they diverged.", only=True),
        number(
            "cut_to", "To which offset the other one is cut when they meet.", null=True, only=True
        ),
    ),
    Placed.PARTITION,
)

# salvage
HOLE = RowType(
    "hole",
    "Bytes of a log that are left out.",
    (
        text("file", "The log."),
        number("position", "Their first byte."),
        number("size", "How many they are."),
        number("batches", "Damaged batches in them."),
        number("first_offset", "First offset that may be missing.", null=True),
        number("last_offset", "Last offset that may be missing.", null=True),
        number("reencoded", "Records of them that are kept in a batch of their own."),
        json_value("codes", "The kinds of findings there."),
    ),
    Placed.FILE,
)
MISSING_OFFSETS = RowType(
    "missing",
    "Offsets of a partition that no batch has that was written.",
    (
        text("file", "The partition."),
        number("offsets", "How many they are."),
        json_value("ranges", "Their ranges, each first and last."),
    ),
    Placed.PARTITION,
)
REARRANGED = RowType(
    "rearranged",
    "Batches of a partition that did not lie where they belong.",
    (
        text("file", "The partition."),
        number("aside_batches", "Undamaged batches whose offsets contradict the others."),
        text("aside", "The directory in which those are.", null=True),
        number("copies", "Batches that lay there twice and are kept once."),
    ),
    Placed.PARTITION,
)

# index-check
LOOKUP = RowType(
    "lookup",
    "How a broker finds an offset or a time, step by step.",
    (
        text("file", "The log."),
        text("column", "offset or timestamp."),
        number("target", "What is looked for."),
        json_value("searches", "The binary searches in indexes, with their steps."),
        number("scan_from", "The byte at which the broker begins to read the log.", null=True),
        number("n_scanned", "Batches that it passes."),
        json_value("scanned", "The first of those."),
        json_value("batch", "The batch that it finds.", null=True),
    ),
    Placed.PARTITION,
)

# explain, format, varints, partition-of, dump
CODE = RowType(
    "code",
    "A kind of finding.",
    (
        _CODE,
        _SEVERITY,
        text("about", "What it is about."),
        text("meaning", "What it means."),
        *_CONSEQUENCES,
    ),
)
PAGE = RowType(
    "topic",
    "A page of explain.",
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
        number("level", "The wheel, counted from the finest.", null=True),
        number("bucket", "The bucket of the wheel.", null=True),
        number("looked_at", "When the bucket expires.", null=True),
    ),
)
FORMAT = RowType(
    "format",
    "A format that kfmt reads.",
    (
        text("name", "Its name."),
        text("chapter", "Where it belongs."),
        number("size", "Its bytes; null where they differ.", null=True),
        json_value("versions", "The first and the last version of a message.", null=True),
        number("flexible_since", "The first version with tagged fields.", null=True),
        text("meaning", "What it is."),
        text("source", "Where Kafka defines it."),
    ),
)
FORMAT_FIELD = RowType(
    "format_field",
    "A field of a format.",
    (
        text("format", "The format."),
        number("offset", "The byte at which it begins; null where that differs.", null=True),
        text("field", "Its name, with those of the structures that it is in."),
        text("wire_type", "Its type."),
        text("bits", "Which bits of the field it is.", null=True),
        text("versions", "The versions that have it, where not all do.", null=True),
        text("meaning", "What it means."),
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
        number("size", "How many bytes."),
    ),
)
PLACEMENT = RowType(
    "partition_of",
    "The partition of an internal topic that an id belongs to.",
    (
        text("id_type", "group or transactional_id."),
        text("id", "The id."),
        number("hash", "Its hash."),
        text("topic", "The internal topic."),
        number("partitions", "How many partitions the topic has."),
        number("partition", "The partition."),
    ),
)
UNKNOWN_FILE = RowType(
    "unknown_file",
    "A file of a directory that kfmt does not know.",
    (
        text("file", "The file."),
        number("bytes", "Its size.", null=True),
    ),
)
DOCUMENTS = tuple(var for var in vars().values() if isinstance(var, RowType))
