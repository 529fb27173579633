"""Every kind of finding in indexes, producer snapshots and checkpoints, as in `files/codes.py`."""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.core.finding import Code, Severity
from kfmt_cli.files.codes import code

_error, _warning, _note = Severity.ERROR, Severity.WARNING, Severity.NOTE

WRONG_PLACE = (
    "A broker takes the index as it is: fetches of some offsets begin at the wrong byte and fail, "
    "or miss records. rebuild-index writes a right one; a broker rebuilds one that is missing."
)
WRONG_TIME = (
    "Look-ups by time give a wrong offset, and retention by time goes by the last entry. "
    "rebuild-index writes a right one."
)
REBUILT = "A broker rebuilds an index only when it is missing, or when it recovers the segment."

INDEX_NOT_INCREASING = code(
    "index-entries-not-increasing",
    _error,
    "An entry's offset or position is not greater than the one before it.",
    "A binary search in it goes astray. " + WRONG_PLACE,
)
INDEX_POSITION_OUT_OF_LOG = code(
    "index-position-out-of-log",
    _error,
    "An entry points past the end of the log, or not behind its first batch.",
    WRONG_PLACE,
)
INDEX_NOT_AT_BATCH = code(
    "index-entry-not-at-batch",
    _error,
    "An entry points at a byte of the log where no batch begins.",
    WRONG_PLACE,
)
INDEX_OFFSET_NOT_IN_LOG = code(
    "index-offset-not-in-log",
    _error,
    "No batch at or behind the position of an entry holds its offset.",
    WRONG_PLACE,
)
INDEX_OFFSET_BEFORE_BATCH = code(
    "index-offset-before-batch",
    _error,
    "The offset of an entry is less than the first one of the batch that it points at.",
    WRONG_PLACE,
)
INDEX_OFFSET_OUT_OF_SEGMENT = code(
    "index-offset-out-of-segment",
    _error,
    "An entry's offset is less than the segment's base offset, or behind its last offset.",
    WRONG_PLACE,
)
INDEX_TRAILING_BYTES = code(
    "index-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    "A broker passes the bytes over, or refuses the index. " + REBUILT,
)
INDEX_ZERO_TAIL = code(
    "index-zero-tail",
    _error,
    "An index ends in zeros although its segment is not the last one.",
    "A broker takes the zeros for entries: the index counts as full, and its last offset as the "
    "segment's base offset. rebuild-index writes one without them.",
)
INDEX_MISSING = code(
    "index-missing",
    _error,
    "A log has no offset index beside it.",
    "A broker recovers the whole segment when it starts, and so rebuilds its indexes.",
)
INDEX_WITHOUT_LOG = code(
    "index-without-log",
    _warning,
    "An index has no log beside it.",
    "A broker deletes it when it starts.",
)
INDEX_PREALLOCATED = code(
    "index-preallocated",
    _note,
    "The index of the last segment ends in zeros: space that is kept for entries to come.",
    "As it should be while a broker runs, or after it was killed.",
)
INDEX_FURTHER_ON = code(
    "index-entry-further-on",
    _note,
    "Entries have offsets behind the batch that they point at.",
    "Followers, the cleaner and brokers before 4.1 write an entry for several batches at once. A "
    "search begins a little earlier than it must; kafka-dump-log calls these mismatches.",
)
INDEX_SPARSE = code(
    "index-sparse",
    _note,
    "Stretches of the log longer than the index interval have no entry.",
    "Look-ups scan further. Followers write one entry for a whole fetch; restarts begin anew.",
)
INDEX_IN_DAMAGE = code(
    "index-entry-in-damage",
    _note,
    "Entries point into, or speak of, a damaged part of the log and cannot be checked.",
    "What becomes of the log decides; see its own findings.",
)
TIME_INDEX_NOT_INCREASING = code(
    "time-index-entries-not-increasing",
    _error,
    "An entry's timestamp is not greater than the one before it, or its offset is less.",
    "A binary search in it goes astray. " + WRONG_TIME,
)
TIME_INDEX_OFFSET_OUT_OF_SEGMENT = code(
    "time-index-offset-out-of-segment",
    _error,
    "An entry's offset is less than the segment's base offset, or behind its last offset.",
    WRONG_TIME,
)
TIME_INDEX_OFFSET_NOT_IN_LOG = code(
    "time-index-offset-not-in-log", _error, "No batch holds the offset of an entry.", WRONG_TIME
)
TIME_INDEX_TIMESTAMP_NOT_IN_LOG = code(
    "time-index-timestamp-not-in-log",
    _error,
    "Neither the batch nor the record at the offset of an entry has its timestamp.",
    WRONG_TIME,
)
TIME_INDEX_NOT_LARGEST = code(
    "time-index-timestamp-not-largest",
    _error,
    "A batch before the one that an entry speaks of has the same timestamp or a larger one.",
    WRONG_TIME,
)
TIME_INDEX_TRAILING_BYTES = code(
    "time-index-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    "A broker passes the bytes over, or refuses the index. " + REBUILT,
)
TIME_INDEX_ZERO_TAIL = code(
    "time-index-zero-tail",
    _error,
    "A time index ends in zeros although its segment is not the last one.",
    "A broker takes the last entry for the segment's largest timestamp: retention reads 1970 and "
    "deletes the segment, and rolling it fails because the index counts as full. rebuild-index "
    "writes one without them.",
)
TIME_INDEX_MISSING = code(
    "time-index-missing",
    _error,
    "A log of magic 2 has no time index beside it.",
    "A broker makes an empty one and does not fill it: look-ups by time find nothing in this "
    "segment and retention goes by the file's own time. rebuild-index writes it.",
)
TIME_INDEX_EMPTY = code(
    "time-index-empty",
    _error,
    "The time index of a segment that is not the last one has no bytes, although the log has "
    "timestamps.",
    "rebuild-index writes a right one.",
    after_crash="The broker rebuilds the index.",
    after_clean_shutdown="The broker leaves the index empty: look-ups by time are right in this "
    "segment and find nothing in every later one.",
)
TIME_INDEX_NOT_YET = code(
    "time-index-absent",
    _note,
    "A log of magic 0 or 1 has no time index beside it.",
    "Brokers before 0.10.1 wrote none; a newer one makes an empty one.",
)
TIME_INDEX_ENDS_EARLY = code(
    "time-index-ends-early",
    _note,
    "The last entry of a closed segment is not its largest timestamp.",
    "Brokers add that entry when they roll or close a segment; retention by time goes by it.",
)

TRANSACTION_INDEX_TRAILING_BYTES = code(
    "transaction-index-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    "A broker passes the bytes over. rebuild-index writes a right one.",
)
_ABORTED = (
    "Consumers that read committed records are given aborted ones, or miss committed ones. "
    "rebuild-index writes a right one."
)
TRANSACTION_INDEX_VERSION = code(
    "transaction-index-version", _error, "An entry has a version other than 0.", _ABORTED
)
TRANSACTION_INDEX_NOT_INCREASING = code(
    "transaction-index-entries-not-increasing",
    _error,
    "The last offset of an entry is not greater than that of the one before it.",
    _ABORTED,
)
TRANSACTION_INDEX_NOT_A_MARKER = code(
    "transaction-index-not-a-marker",
    _error,
    "The last offset of an entry is not that of an ABORT marker of its producer.",
    _ABORTED,
)
TRANSACTION_INDEX_ENTRY_MISSING = code(
    "transaction-index-entry-missing",
    _error,
    "A transaction that was aborted in the segment is not in its transaction index.",
    "Consumers that read committed records are given its records. rebuild-index writes a right "
    "one.",
)
TRANSACTION_INDEX_MISSING = code(
    "transaction-index-missing",
    _error,
    "Transactions were aborted in a segment that has no transaction index beside it.",
    "rebuild-index writes it.",
    after_crash="The broker rebuilds the index.",
    after_clean_shutdown="The broker goes on without it: consumers that read committed records "
    "are given the aborted ones.",
)

SNAPSHOT_CRC_MISMATCH = code(
    "snapshot-crc-mismatch",
    _error,
    "The checksum of a producer snapshot does not fit its bytes.",
    "A broker deletes it and rebuilds the state from an older one and the log.",
)
SNAPSHOT_MALFORMED = code(
    "snapshot-malformed",
    _error,
    "A producer snapshot is not what it says.",
    "A broker deletes it and rebuilds the state from an older one and the log.",
)
SNAPSHOT_TRAILING_BYTES = code(
    "snapshot-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    "A broker deletes it and rebuilds the state from an older one and the log.",
)
CHECKPOINT_MALFORMED = code(
    "checkpoint-malformed",
    _error,
    "A checkpoint file is not what a broker writes.",
    "A broker does not start a log directory whose checkpoints it cannot read, or takes them for "
    "empty.",
)
CHECKPOINT_EMPTY = code(
    "checkpoint-empty",
    _note,
    "A checkpoint file has no bytes, as before a broker first writes to it.",
    after_crash="The broker starts and takes it for a file without entries.",
    after_clean_shutdown="The broker starts and takes it for a file without entries.",
)
PRODUCERS_UNKNOWN = code(
    "producers-unknown",
    _note,
    "What producers did before this log begins is not known.",
    "No producer snapshot is written, and the transaction index has only those transactions that "
    "begin in the logs given. Give the whole partition, or put the snapshot beside the log.",
)


def beside_missing_index(time_index: Code) -> Code:
    """The finding about a time index with what follows when the offset index is missing, too."""
    return replace(
        time_index,
        advice=None,
        after_crash="The broker rebuilds the index.",
        after_clean_shutdown="The broker recovers the segment because its offset index is missing, "
        "and fills both indexes.",
    )
