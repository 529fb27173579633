"""The objects that commands say besides rows of tables: their members are declared here, once.

Whatever is written of them, JSON, CSV, the Python API, Arrow and `docs/json.md`, follows from here.
"""

from __future__ import annotations

from collections.abc import Mapping

from kfmt_cli.core.layout.field import MILLISECONDS
from kfmt_cli.rows.column import Column, ColumnKind, RowType


def members(type_: RowType, values: Mapping[str, object]) -> dict[str, object]:
    """The members of an object in the order of its type; raises KeyError for one that it has not.

    What has no value is null, unless its type says that it may be left out.
    """
    for name in values:
        if name not in type_.by_name:
            raise KeyError(f"{type_.name} has no {name}")
    return {
        it.name: values.get(it.name) for it in type_.columns if it.only is None or it.name in values
    }


def _number(name: str, doc: str, *, null: bool = False, only: bool = False) -> Column:
    return Column(name, ColumnKind.NUMBER, doc, given=_null(name, null), only=_only(name, only))


def _real(name: str, doc: str, *, null: bool = False) -> Column:
    return Column(name, ColumnKind.REAL, doc, given=_null(name, null))


def _time(name: str, doc: str, *, null: bool = False) -> Column:
    return Column(name, ColumnKind.NUMBER, doc, given=_null(name, null), unit=MILLISECONDS, none=-1)


def _text(name: str, doc: str, *, null: bool = False) -> Column:
    return Column(name, ColumnKind.TEXT, doc, given=_null(name, null))


def _flag(name: str, doc: str, *, null: bool = False) -> Column:
    return Column(name, ColumnKind.FLAG, doc, given=_null(name, null))


def _json(name: str, doc: str, *, null: bool = False, only: bool = False) -> Column:
    return Column(name, ColumnKind.JSON, doc, given=_null(name, null), only=_only(name, only))


def _null(name: str, null: bool) -> str:
    return f"has_{name}" if null else ""


def _only(name: str, only: bool) -> tuple[str, int] | None:
    return (f"has_{name}", 1) if only else None


_OBSERVED_ON = _json("observed_on", "The versions of Kafka on which the prediction was observed.")
_CODE = _text("code", "The kind of finding.")
_SEVERITY = _text("severity", "error, warning or note.")

FINDING = RowType(
    "finding",
    "Something that is wrong, or worth knowing.",
    (
        _text("file", "The file, or the directory."),
        _CODE,
        _SEVERITY,
        _number("position", "The byte that it is about.", null=True),
        _number("offset", "The offset that it is about.", null=True),
        _text("message", "What was found, in words."),
        _json("expected", "What should be there, where that is one value.", null=True),
        _json("found", "What is there instead.", null=True),
        _text("after_crash", "What a broker makes of it that starts after a crash.", null=True),
        _text(
            "after_clean_shutdown",
            "What a broker makes of it that starts after a clean shutdown.",
            null=True,
        ),
        _text("advice", "What can be done about it.", null=True),
    ),
)
FINDINGS_LEFT_OUT = RowType(
    "findings_left_out",
    "Findings that are counted and not shown, as there are more than --max-findings.",
    (
        _text("file", "The file."),
        _CODE,
        _SEVERITY,
        _number("count", "How many of them are not shown."),
    ),
)

# check
PARTITION = RowType(
    "partition",
    "A partition's directory, and what was found in it.",
    (
        _text("file", "The directory."),
        _number("segments", "Logs in it."),
        _number("records", "Records in the logs."),
        _number("bytes", "Bytes of the logs."),
        _number("errors", "Findings of severity error."),
        _number("warnings", "Findings of severity warning."),
        _number("notes", "Findings of severity note."),
    ),
)
BROKER_START = RowType(
    "broker_start",
    "What a broker would make of a partition, or of a log directory, when it starts.",
    (
        _text("file", "The directory."),
        _text("after", "How the broker stopped: crash or clean_shutdown."),
        _flag("starts", "Whether the broker starts."),
        _text("reason", "Why it does not.", null=True),
        _number("log_start_offset", "First offset that it serves afterwards.", null=True),
        _number("log_end_offset", "The offset after the last.", null=True),
        _json("cut", "The files that it cuts, each with the size that is left."),
        _json("deleted", "The files that it deletes."),
        _json("lost_offsets", "Ranges of offsets that are gone afterwards, each first and last."),
        _json(
            "unreachable_offsets",
            "Ranges of offsets that stay on the disk and cannot be read, each first and last.",
        ),
        _text("becomes", "The name that it gives the directory.", null=True),
        _OBSERVED_ON,
    ),
)
NEXT_STEP = RowType(
    "next",
    "A command that would help, and what it costs.",
    (
        _text("file", "The directory."),
        _text("command", "The command, ready to paste."),
        _text("price", "What is lost or changed by it."),
    ),
)
LOG_DIRECTORY = RowType(
    "log_directory",
    "The next start of a broker on a log directory.",
    (
        _text("file", "The directory."),
        _flag("starts", "Whether the broker starts."),
        _text("reason", "Why it does not.", null=True),
        _text("becomes", "What it does with the directory if it starts without it.", null=True),
        _text("retry", "What a further start would do.", null=True),
        _text("next_start", "How the next start is: after_crash or after_clean_shutdown."),
        _OBSERVED_ON,
    ),
)

# stat
STATISTICS = RowType(
    "stat",
    "Numbers about a segment, a partition or a topic.",
    (
        _text("file", "What they are about."),
        _number("segments", "Logs."),
        _number("bytes", "Bytes of the logs."),
        _number("batches", "Batches."),
        _number("records", "Records, as the headers of batches count them."),
        _real("records_per_batch", "Records of a batch, on average.", null=True),
        _real("bytes_per_batch", "Bytes of a batch, on average.", null=True),
        _real("bytes_per_record", "Bytes of a record as stored, on average.", null=True),
        _json("codecs", "Of each codec: how many batches and bytes."),
        _real("compression_ratio", "Bytes of records by their bytes as stored.", null=True),
        _number("first_offset", "The first offset.", null=True),
        _number("last_offset", "The last offset.", null=True),
        _real("offset_density", "Records by the offsets that they span.", null=True),
        _time("min_timestamp", "The smallest timestamp.", null=True),
        _time("max_timestamp", "The largest timestamp.", null=True),
        _number("timestamp_skew_ms", "By how much a timestamp is at most before an earlier one."),
        _number("producers", "Producers with an id."),
        _number("transactional_batches", "Batches of transactions."),
        _number("control_batches", "Batches with the marker of a transaction."),
        _number("null_keys", "Records without a key; null without --deep.", null=True),
        _number("empty_keys", "Records whose key has no bytes.", null=True),
        _number("tombstones", "Records without a value.", null=True),
        _json("records_histogram", "Batches by their records, in powers of two."),
        _json("bytes_histogram", "Batches by their bytes, in powers of two."),
    ),
)
WHAT_IF = RowType(
    "what_if",
    "What another codec would make of a sample of the batches.",
    (
        _text("codec", "The codec, and its level."),
        _number("sample_bytes", "Bytes of the records in the sample."),
        _number("stored_bytes", "Bytes that they take now."),
        _number("would_be_bytes", "Bytes that they would take."),
        _real("saved", "The part of the bytes that would be saved; below 0, they would grow."),
        _real("seconds", "How long it took to compress the sample."),
    ),
)

# retention, compaction, txn
RETENTION = RowType(
    "retention",
    "Whether a broker's retention deletes a segment, and when.",
    (
        _text("file", "The log."),
        _number("base_offset", "Its first offset, by its name."),
        _number("bytes", "Its bytes."),
        _time("largest_timestamp", "The time that retention goes by."),
        _text("timestamp_source", "Where that time is from."),
        _flag("active", "Whether it is the segment that is written to."),
        _flag("deletable", "Whether it goes now."),
        _time("deletable_at", "When it goes.", null=True),
        _text("why", "The rule that decides."),
        _json("settings", "The settings of the topic, and where each comes from."),
    ),
)
ROLL = RowType(
    "roll",
    "When the active segment is rolled.",
    (
        _text("file", "The log."),
        _text("reason", "The setting that decides."),
        _number("at_bytes", "The size at which it is rolled."),
        _time("at_time", "The time of the record with which it is rolled.", null=True),
    ),
)
FREED = RowType(
    "freed",
    "What retention frees in all.",
    (
        _number("bytes_now", "Bytes that go now."),
        _number("bytes_later", "Bytes that go later."),
    ),
)
COMPACTION = RowType(
    "compaction",
    "What a run of the log cleaner would make of a partition.",
    (
        _text("file", "The partition."),
        _json("cleanup_policy", "The policy of its topic."),
        _json("settings", "The settings of the topic, and where each comes from."),
        _number("first_dirty_offset", "First offset that was not cleaned yet."),
        _number("first_uncleanable_offset", "First offset that may not be cleaned now."),
        _text("held_by", "What keeps the cleaner from going further."),
        _number("clean_bytes", "Bytes before the first dirty offset."),
        _number("dirty_bytes", "Bytes that would be cleaned."),
        _real("dirty_ratio", "The dirty bytes by both."),
        _flag("picked", "Whether the cleaner would take the partition now."),
        _text("never_because", "Why it never would.", null=True),
        _number("passes", "How many runs it takes, as the offset map is of limited size."),
        _number("records_kept", "Records that stay."),
        _number("records_removed", "Records that go."),
        _number("replaced", "Of those that go: replaced by a later record of their key."),
        _number("without_key", "Of those that go: without a key."),
        _number("of_aborted_transactions", "Of those that go: of aborted transactions."),
        _number("tombstones_kept", "Tombstones that stay until their time has come."),
        _number("markers_kept", "Markers of transactions that stay."),
        _time("next_delete_horizon", "When the next of those may go.", null=True),
        _number("segments_before", "Segments before."),
        _number("segments_after", "Segments after."),
        _json("remaining_offsets", "The offsets that stay; null without --offsets.", null=True),
    ),
)
KEY_FATE = RowType(
    "key",
    "What the cleaner makes of a record of the key that was asked for.",
    (
        _text("file", "The log."),
        _number("batch_position", "First byte of its batch."),
        _number("offset", "Its offset."),
        _time("timestamp", "Its timestamp.", null=True),
        _number("value_size", "Bytes of its value, -1 of a tombstone."),
        _flag("stays", "Whether it stays."),
        _text("why", "The rule that decides."),
    ),
)
TRANSACTIONS = RowType(
    "transactions",
    "The transactions of a partition, counted.",
    (
        _text("file", "The partition."),
        _number("committed", "Those that were committed."),
        _number("aborted", "Those that were aborted."),
        _number("open", "Those without a marker."),
        _number("last_stable_offset", "Up to which read_committed reads."),
        _number("log_end_offset", "The offset after the last."),
    ),
)

# diff
DIFF = RowType(
    "diff",
    "What the comparison of two replicas comes to.",
    (
        _text("file", "A."),
        _text("other", "B."),
        _number("a_end", "End of A's log."),
        _number("b_end", "End of B's log."),
        _text("verdict", "identical, consistent, damaged, missing or diverged."),
        _number("diverged_at", "First offset at which they differ.", null=True),
        _text("later", "A or B: which of them has the later leader epoch.", null=True),
        _number("a_latest_epoch", "Latest leader epoch of A, where they diverged.", only=True),
        _number("b_latest_epoch", "Latest leader epoch of B, where they diverged.", only=True),
        _number(
            "cut_to", "To which offset the other one is cut when they meet.", null=True, only=True
        ),
    ),
)

# salvage
HOLE = RowType(
    "hole",
    "Bytes of a log that are left out.",
    (
        _text("file", "The log."),
        _number("position", "Their first byte."),
        _number("size", "How many they are."),
        _number("batches", "Damaged batches in them."),
        _number("first_offset", "First offset that may be missing.", null=True),
        _number("last_offset", "Last offset that may be missing.", null=True),
        _number("reencoded", "Records of them that are kept in a batch of their own."),
        _json("codes", "The kinds of findings there."),
    ),
)
MISSING_OFFSETS = RowType(
    "missing",
    "Offsets of a partition that no batch has that was written.",
    (
        _text("file", "The partition."),
        _number("offsets", "How many they are."),
        _json("ranges", "Their ranges, each first and last."),
    ),
)
REARRANGED = RowType(
    "rearranged",
    "Batches of a partition that did not lie where they belong.",
    (
        _text("file", "The partition."),
        _number("aside_batches", "Undamaged batches whose offsets contradict the others."),
        _text("aside", "The directory in which those are.", null=True),
        _number("copies", "Batches that lay there twice and are kept once."),
    ),
)

# index-check
LOOKUP = RowType(
    "lookup",
    "How a broker finds an offset or a time, step by step.",
    (
        _text("file", "The log."),
        _text("column", "offset or timestamp."),
        _number("target", "What is looked for."),
        _json("searches", "The binary searches in indexes, with their steps."),
        _number("scan_from", "The byte at which the broker begins to read the log.", null=True),
        _number("n_scanned", "Batches that it passes."),
        _json("scanned", "The first of those."),
        _json("batch", "The batch that it finds.", null=True),
    ),
)

# explain, format, varints, partition-of, dump
CODE = RowType(
    "code",
    "A kind of finding.",
    (
        _CODE,
        _SEVERITY,
        _text("about", "What it is about."),
        _text("meaning", "What it means."),
        _text("after_crash", "What a broker makes of it that starts after a crash.", null=True),
        _text(
            "after_clean_shutdown",
            "What a broker makes of it that starts after a clean shutdown.",
            null=True,
        ),
        _text("advice", "What can be done about it.", null=True),
    ),
)
PAGE = RowType(
    "topic",
    "A page of explain.",
    (
        _text("topic", "Its name."),
        _text("title", "Its title."),
        _json("parts", "Its paragraphs, and its tables as lists of lines.", only=True),
    ),
)
STEP = RowType(
    "step",
    "A step of a timing wheel.",
    (
        _number("at", "The time in milliseconds."),
        _text("kind", "What happens: a timer is added, moved or expires."),
        _text("timer", "The timer."),
        _number("level", "The wheel, counted from the finest.", null=True),
        _number("bucket", "The bucket of the wheel.", null=True),
        _number("looked_at", "When the bucket expires.", null=True),
    ),
)
FORMAT = RowType(
    "format",
    "A format that kfmt reads.",
    (
        _text("name", "Its name."),
        _text("chapter", "Where it belongs."),
        _number("size", "Its bytes; null where they differ.", null=True),
        _json("versions", "The first and the last version of a message.", null=True),
        _number("flexible_since", "The first version with tagged fields.", null=True),
        _text("meaning", "What it is."),
        _text("source", "Where Kafka defines it."),
    ),
)
FORMAT_FIELD = RowType(
    "format_field",
    "A field of a format.",
    (
        _text("format", "The format."),
        _number("offset", "The byte at which it begins; null where that differs.", null=True),
        _text("field", "Its name, with those of the structures that it is in."),
        _text("wire_type", "Its type."),
        _text("bits", "Which bits of the field it is.", null=True),
        _text("versions", "The versions that have it, where not all do.", null=True),
        _text("meaning", "What it means."),
    ),
)
VARINT = RowType(
    "varint",
    "A varint.",
    (
        _text("encoding", "Its type."),
        _number("value", "The number."),
        _number("zigzag", "The number after zigzag; null without it.", null=True),
        _text("hex", "Its bytes."),
        _number("size", "How many bytes."),
    ),
)
PLACEMENT = RowType(
    "partition_of",
    "The partition of an internal topic that an id belongs to.",
    (
        _text("id_type", "group or transactional_id."),
        _text("id", "The id."),
        _number("hash", "Its hash."),
        _text("topic", "The internal topic."),
        _number("partitions", "How many partitions the topic has."),
        _number("partition", "The partition."),
    ),
)
UNKNOWN_FILE = RowType(
    "unknown_file",
    "A file of a directory that kfmt does not know.",
    (
        _text("file", "The file."),
        _number("bytes", "Its size.", null=True),
    ),
)
DOCUMENTS = tuple(it for it in vars().values() if isinstance(it, RowType))
