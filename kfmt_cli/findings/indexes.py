"""What checks find in the indexes of a segment."""

from __future__ import annotations

from kfmt_cli.findings.consequences import (
    NO_FAILED_LOOKUP,
    NO_FAILED_READ,
    NO_SKIP,
    NO_WRONG_RECORD,
    REBUILD_INDEX,
    REBUILT,
    TAKEN,
    TIMES_BOTH,
    TIMES_EMPTY,
)
from kfmt_cli.findings.finding import Severity, code

_error, _warning, _note = Severity.ERROR, Severity.WARNING, Severity.NOTE

INDEX_NOT_INCREASING = code(
    "index-entries-not-increasing",
    _error,
    "An entry's offset or position is not greater than the one before it.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_FAILED_READ,
)
INDEX_POSITION_OUT_OF_LOG = code(
    "index-position-out-of-log",
    _error,
    "An entry points past the end of the log, or not after its first batch.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + " Some seeks skip records without an error.",
)
INDEX_NOT_AT_BATCH = code(
    "index-entry-not-at-batch",
    _error,
    "An entry points at a byte of the log where no batch begins.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + " Some seeks skip records without an error.",
)
INDEX_OFFSET_NOT_IN_LOG = code(
    "index-offset-not-in-log",
    _error,
    "No batch at or after the position of an entry holds its offset.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_FAILED_READ,
)
INDEX_OFFSET_BEFORE_BATCH = code(
    "index-offset-before-batch",
    _error,
    "The offset of an entry is less than the first one of the batch that it points at.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_FAILED_READ,
)
INDEX_OFFSET_OUT_OF_SEGMENT = code(
    "index-offset-out-of-segment",
    _error,
    "An entry's offset is less than the segment's base offset, or after its last offset.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_FAILED_READ,
)
INDEX_ZERO_TAIL = code(
    "index-zero-tail",
    _error,
    "An index ends in zeros although its segment is not the last one.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_SKIP,
)
INDEX_MISSING = code(
    "index-missing",
    _error,
    "A log has no offset index next to it.",
    "Nothing has to be done: the next start rebuilds it, and takes as long as reading the segment.",
    after_crash="The broker rebuilds all indexes of the segment.",
    after_clean_shutdown="The broker recovers the segment alone and rebuilds all its indexes.",
)
INDEX_WITHOUT_LOG = code(
    "index-without-log",
    _warning,
    "An index has no log next to it.",
    "If the log was lost, its records are: the index holds none.",
    after_crash="The broker deletes it, and every record is delivered.",
    after_clean_shutdown="The broker deletes it, and every record is delivered.",
)
INDEX_PREALLOCATED = code(
    "index-preallocated",
    _note,
    "The index of the last segment ends in zeros: space that is kept for entries to come.",
    "Normal while a broker runs, or after it was killed; a clean shutdown leaves no zeros.",
    after_crash="The broker drops the bytes after the last entry at its next clean stop.",
    after_clean_shutdown=TAKEN
    + " No seek was seen to miss a record. If it is a time index, look-ups by time in it find "
    "nothing.",
)
INDEX_FURTHER_ON = code(
    "index-entry-further-on",
    _note,
    "Entries have offsets after the batch that they point at.",
    "Followers, the cleaner and brokers before 4.1 write an entry for several batches at "
    "once. A search begins a little earlier than it must; kafka-dump-log calls these "
    "mismatches.",
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_SKIP,
)
INDEX_SPARSE = code(
    "index-sparse",
    _note,
    "Stretches of the log longer than the index interval have no entry.",
    "Look-ups scan further. Followers write one entry for a whole fetch; restarts begin anew.",
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_SKIP,
)
INDEX_IN_DAMAGE = code(
    "index-entry-in-damage",
    _note,
    "Entries point into, or speak of, a damaged part of the log and cannot be checked.",
    "This follows from the damage in the log; see the log's findings.",
)
TIME_INDEX_NOT_INCREASING = code(
    "time-index-entries-not-increasing",
    _error,
    "An entry's timestamp is not greater than the one before it, or its offset is less.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_FAILED_LOOKUP,
)
TIME_INDEX_OFFSET_OUT_OF_SEGMENT = code(
    "time-index-offset-out-of-segment",
    _error,
    "An entry's offset is less than the segment's base offset, or after its last offset.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_FAILED_LOOKUP,
)
TIME_INDEX_OFFSET_NOT_IN_LOG = code(
    "time-index-offset-not-in-log",
    _error,
    "No batch holds the offset of an entry.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN + NO_FAILED_LOOKUP,
)
TIME_INDEX_TIMESTAMP_NOT_IN_LOG = code(
    "time-index-timestamp-not-in-log",
    _error,
    "Neither the batch nor the record at the offset of an entry has its timestamp.",
    REBUILD_INDEX,
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN
    + " If the last entry is too high, look-ups by time find nothing in every later segment. "
    "With another entry, no look-up by time was seen to fail.",
)
TIME_INDEX_NOT_LARGEST = code(
    "time-index-timestamp-not-largest",
    _error,
    "A batch before the one that an entry speaks of has the same timestamp or a larger one.",
    "What a broker does with it was not observed. kfmt rebuild-index writes a right one; "
    "the broker must be stopped.",
)
TIME_INDEX_ZERO_TAIL = code(
    "time-index-zero-tail",
    _error,
    "A time index ends in zeros although its segment is not the last one.",
    "Before a broker starts: kfmt rebuild-index writes one without the zeros. Or delete it and the "
    "segment's .index: a broker that finds neither recovers the segment and rebuilds both.",
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN
    + " Look-ups by time skip to the next segment. Retention by time deletes the segment.",
)
TIME_INDEX_MISSING = code(
    "time-index-missing",
    _error,
    "A log of magic 2 has no time index next to it.",
    TIMES_BOTH,
    after_crash=REBUILT,
    after_clean_shutdown=TIMES_EMPTY,
)
TIME_INDEX_EMPTY = code(
    "time-index-empty",
    _error,
    "The time index of a closed segment of magic 1 or 2 has 0 bytes.",
    TIMES_BOTH,
    after_crash=REBUILT,
    after_clean_shutdown=TIMES_EMPTY,
)
TIME_INDEX_NOT_YET = code(
    "time-index-absent",
    _note,
    "A log of magic 0 or 1 has no time index next to it.",
    "Brokers before 0.10.1 wrote none.",
    after_crash="The broker makes an empty one or rebuilds it, and every record is delivered.",
    after_clean_shutdown="The broker makes one and leaves it empty; every record is delivered.",
)
TIME_INDEX_ENDS_EARLY = code(
    "time-index-ends-early",
    _note,
    "The last entry of a closed segment is not its largest timestamp.",
    "Brokers add the last entry when they roll or close a segment; kfmt rebuild-index "
    "writes it, the broker must be stopped.",
    after_crash=REBUILT,
    after_clean_shutdown=TAKEN
    + " For times after its last entry, look-ups by time skip to the next segment.",
)
TRANSACTION_INDEX_VERSION = code(
    "transaction-index-version",
    _error,
    "An entry has a version other than 0.",
    REBUILD_INDEX,
    after_crash=REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown=TAKEN + NO_WRONG_RECORD,
)
TRANSACTION_INDEX_NOT_INCREASING = code(
    "transaction-index-entries-not-increasing",
    _error,
    "The last offset of an entry is not greater than that of the one before it.",
    REBUILD_INDEX,
    after_crash=REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown=TAKEN + NO_WRONG_RECORD,
)
TRANSACTION_INDEX_NOT_A_MARKER = code(
    "transaction-index-not-a-marker",
    _error,
    "The last offset of an entry is not that of an ABORT marker of its producer.",
    REBUILD_INDEX,
    after_crash=REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown=TAKEN + NO_WRONG_RECORD,
)
TRANSACTION_INDEX_ENTRY_MISSING = code(
    "transaction-index-entry-missing",
    _error,
    "A transaction that was aborted in the segment is not in its transaction index.",
    REBUILD_INDEX,
    after_crash=REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown=TAKEN + " Read_committed consumers are given aborted records.",
)
TRANSACTION_INDEX_MISSING = code(
    "transaction-index-missing",
    _error,
    "A log with aborted transactions has no transaction index next to it.",
    REBUILD_INDEX,
    after_crash=REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown="Read_committed consumers are given aborted records.",
)
