"""Findings from checking the indexes of a segment."""

from __future__ import annotations

from functools import partial

from kfmt_cli.findings.consequences import (
    INDEX_REBUILT,
    INDEX_USED,
    NO_FAILED_LOOKUP,
    NO_FAILED_READ,
    NO_SEEK_MISSED,
    NO_WRONG_RECORD,
    REBUILD_INDEX,
    REBUILD_TIME_INDEX,
    REBUILD_TRANSACTION_INDEX,
    REBUILD_WITHOUT_ZEROS,
    SEEKS_SKIP_RECORDS,
    TIME_INDEX_EMPTY_EFFECT,
    VERSION_PREVENTS_START,
)
from kfmt_cli.findings.finding import FindingCode, error, note, warning


def _define_used_index_error(
    code_name: str,
    meaning: str,
    lookup_effect: str,
    advice: str = REBUILD_INDEX,
    after_crash: str = INDEX_REBUILT,
) -> FindingCode:
    """An error in an index that a broker uses as is. lookup_effect: on lookups."""
    effect_after_shutdown = INDEX_USED + lookup_effect
    return error(
        code_name,
        meaning,
        advice,
        after_crash=after_crash,
        after_clean_shutdown=effect_after_shutdown,
    )


# The same for a transaction index.
_used_transaction_index_error = partial(
    _define_used_index_error,
    advice=REBUILD_TRANSACTION_INDEX,
    after_crash=INDEX_REBUILT + NO_WRONG_RECORD,
)

INDEX_NOT_INCREASING = _define_used_index_error(
    "index-entries-not-increasing",
    "An entry's offset or position is not greater than the previous entry's.",
    SEEKS_SKIP_RECORDS,
)
INDEX_POSITION_OUT_OF_LOG = _define_used_index_error(
    "index-position-out-of-log",
    "An entry's position is 0 or past the end of the log.",
    SEEKS_SKIP_RECORDS,
)
INDEX_NOT_AT_BATCH = _define_used_index_error(
    "index-entry-not-at-batch",
    "An entry points to a byte in the log where no batch starts.",
    SEEKS_SKIP_RECORDS,
)
INDEX_OFFSET_NOT_IN_LOG = _define_used_index_error(
    "index-offset-not-in-log",
    "No batch at or after an entry's position contains its offset.",
    NO_FAILED_READ,
)
INDEX_OFFSET_BEFORE_BATCH = _define_used_index_error(
    "index-offset-before-batch",
    "An entry's offset is below the base offset of the batch it points to.",
    SEEKS_SKIP_RECORDS,
)
INDEX_OFFSET_OUT_OF_SEGMENT = _define_used_index_error(
    "index-offset-out-of-segment",
    "An entry's offset is outside the segment's offset range.",
    SEEKS_SKIP_RECORDS,
)
INDEX_ZERO_TAIL = _define_used_index_error(
    "index-zero-tail", "An index ends in zeros although its segment is closed.", NO_SEEK_MISSED
)
INDEX_MISSING = error(
    "index-missing",
    "A log has no offset index.",
    "No action needed: the next start rebuilds it, which takes as long as reading the segment.",
    after_crash="The broker rebuilds all indexes of the segment.",
    after_clean_shutdown="The broker recovers only this segment and rebuilds all its indexes.",
)
INDEX_WITHOUT_LOG = warning(
    "index-without-log",
    "An index file has no log.",
    "If the log was lost, so are its records; an index contains none.",
    on_start="The broker deletes the index; every record is delivered.",
)
INDEX_PREALLOCATED = note(
    "index-preallocated",
    "The index of the active segment ends in zeros: space preallocated for future entries.",
    "Normal while a broker is running or after it was killed; a clean shutdown trims the zeros.",
    after_crash="The broker discards the bytes after the last entry at its next clean shutdown.",
    after_clean_shutdown=INDEX_USED
    + NO_SEEK_MISSED
    + " If it is a time index, lookups by timestamp in it find nothing.",
)
INDEX_ENTRY_FURTHER_ON = note(
    "index-entry-further-on",
    "Entries have offsets beyond the batch they point to.",
    "Followers, the cleaner and brokers before 4.1 write an entry for several batches at once. A "
    "search starts slightly earlier than necessary; kafka-dump-log reports these as mismatches.",
    after_crash=INDEX_REBUILT,
    after_clean_shutdown=INDEX_USED + NO_SEEK_MISSED,
)
INDEX_SPARSE = note(
    "index-sparse",
    "Parts of the log longer than the index interval have no entry.",
    "Lookups scan more of the log. Followers write one entry per fetch, and a restart resets the "
    "interval.",
    after_crash=INDEX_REBUILT,
    after_clean_shutdown=INDEX_USED + NO_SEEK_MISSED,
)
INDEX_IN_DAMAGE = note(
    "index-entry-in-damage",
    "Entries refer to a damaged part of the log and cannot be checked.",
    "This is a consequence of damage in the log; see the findings for the log.",
)
TIME_INDEX_NOT_INCREASING = _define_used_index_error(
    "time-index-entries-not-increasing",
    "An entry's timestamp is not greater than the previous entry's, or its offset is lower.",
    NO_FAILED_LOOKUP,
)
TIME_INDEX_OFFSET_OUT_OF_SEGMENT = _define_used_index_error(
    "time-index-offset-out-of-segment",
    "An entry's offset is outside the segment's offset range.",
    NO_FAILED_LOOKUP,
)
TIME_INDEX_OFFSET_NOT_IN_LOG = _define_used_index_error(
    "time-index-offset-not-in-log", "No batch contains an entry's offset.", NO_FAILED_LOOKUP
)
TIME_INDEX_TIMESTAMP_NOT_IN_LOG = _define_used_index_error(
    "time-index-timestamp-not-in-log",
    "Neither the batch nor the record at an entry's offset has the entry's timestamp.",
    " If the last entry is too high, lookups by timestamp find nothing in any later segment. "
    "With any other entry, no lookup by timestamp failed in tests.",
)
TIME_INDEX_NOT_LARGEST = error(
    "time-index-timestamp-not-largest",
    "An earlier batch has the same timestamp as an entry, or a later one.",
    "The effect on a broker has not been tested. With the broker stopped, run kfmt rebuild-index "
    "to write a correct index.",
)
TIME_INDEX_ZERO_TAIL = _define_used_index_error(
    "time-index-zero-tail",
    "A time index ends in zeros although its segment is closed.",
    " Lookups by timestamp skip to the next segment. Time-based retention deletes the segment.",
    REBUILD_WITHOUT_ZEROS,
)
TIME_INDEX_MISSING = error(
    "time-index-missing",
    "A magic 2 log has no time index.",
    REBUILD_TIME_INDEX,
    after_crash=INDEX_REBUILT,
    after_clean_shutdown=TIME_INDEX_EMPTY_EFFECT,
)
TIME_INDEX_EMPTY = error(
    "time-index-empty",
    "The time index of a closed magic 1 or 2 segment is empty (0 bytes).",
    REBUILD_TIME_INDEX,
    after_crash=INDEX_REBUILT,
    after_clean_shutdown=TIME_INDEX_EMPTY_EFFECT,
)
TIME_INDEX_ABSENT = note(
    "time-index-absent",
    "A magic 0 or 1 log has no time index.",
    "Brokers before 0.10.1 did not write time indexes.",
    after_crash="The broker creates an empty one or rebuilds it, and every record is delivered.",
    after_clean_shutdown="The broker creates one and leaves it empty; every record is delivered.",
)
TIME_INDEX_ENDS_EARLY = note(
    "time-index-ends-early",
    "The last time index entry of a closed segment is not its largest timestamp.",
    "Brokers add the last entry when they roll or close a segment. With the broker stopped, kfmt "
    "rebuild-index writes it.",
    after_crash=INDEX_REBUILT,
    after_clean_shutdown=INDEX_USED
    + " Beyond its last entry, lookups by timestamp skip to the next segment.",
)
TRANSACTION_INDEX_VERSION = error(
    "transaction-index-version",
    "An entry has a version other than 0.",
    REBUILD_TRANSACTION_INDEX,
    after_crash=VERSION_PREVENTS_START + INDEX_REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown=VERSION_PREVENTS_START + INDEX_USED + NO_WRONG_RECORD,
)
TRANSACTION_INDEX_NOT_INCREASING = _used_transaction_index_error(
    "transaction-index-entries-not-increasing",
    "An entry's last offset is not greater than the previous entry's.",
    NO_WRONG_RECORD,
)
TRANSACTION_INDEX_NOT_A_MARKER = _used_transaction_index_error(
    "transaction-index-not-a-marker",
    "An entry's last offset is not an ABORT marker of its producer.",
    " If the entry names another producer, read_committed consumers receive aborted records.",
)
TRANSACTION_INDEX_ENTRY_MISSING = _used_transaction_index_error(
    "transaction-index-entry-missing",
    "An aborted transaction is missing from the segment's transaction index.",
    " read_committed consumers receive aborted records.",
)
TRANSACTION_INDEX_MISLEADING = _used_transaction_index_error(
    "transaction-index-misleading",
    "An entry's first offset or last stable offset is too high for its transaction.",
    " read_committed consumers receive aborted records.",
)
TRANSACTION_INDEX_MISSING = error(
    "transaction-index-missing",
    "A log with aborted transactions has no transaction index.",
    REBUILD_TRANSACTION_INDEX,
    after_crash=INDEX_REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown="read_committed consumers receive aborted records.",
)
