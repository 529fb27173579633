"""Sentences that several codes share: the effect on brokers and consumers, and what to do.

Each was observed for every code that uses it, by `tests/interop/test_claims.py`.
"""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.findings.finding import FindingCode, Severity

IF_RECOVERED = "If the recovery point is not above this segment, "
LOG_TRUNCATED = (
    IF_RECOVERED + "the broker truncates the log at this byte and deletes all later segments."
)
LOG_UNCHANGED = "The broker leaves the log unchanged."
CONSUMERS_STOP = LOG_UNCHANGED + " Consumers get an error at this batch."
CONSUMERS_STOP_INSIDE_BATCH = (
    LOG_UNCHANGED
    + " Consumers receive the records before the fault, then get an error inside this batch."
)
FETCH_FAILS = LOG_UNCHANGED + (
    " Every fetch that includes this batch fails as a whole, so consumers do not get the "
    "records before it either."
)
RECORDS_SKIPPED = LOG_UNCHANGED + " Some records are silently skipped: "
RESTORE_FROM_REPLICA = "If you have a healthy replica, restore the files from it; nothing is lost. "
COPY_FIRST = (
    "Copy the directory before a broker recovers it: recovery also deletes the undamaged records "
    f"after this byte. {RESTORE_FROM_REPLICA}"
)
ONE_BY_ONE_READS = " A consumer with max.poll.records=1 still receives the records before it."
SEEK_NEXT_BATCH = (
    "Consumers can seek to the next batch and continue; they miss only the records in this one."
)
SEEK_NEXT_SEGMENT = (
    "Consumers can seek to the next segment and continue; they miss the rest of this one."
)
FORCE_RECOVERY = (
    "Delete .kafka_cleanshutdown before the broker starts. It then recovers the last segment and "
)
RECOVERY_COST = (
    ". Startup takes longer, because the broker also checks the last segment of every other "
    "partition."
)
OFFSET_OUT_OF_BATCH = (
    " If the record's offset is too high, that record and every record up to its offset are "
    "silently skipped. If only the batch's last offset is too low, every record is delivered."
)
INNER_MESSAGE_TRUNCATED = (
    " The incomplete message is silently dropped; with magic 1, the other messages get offsets "
    "that are too high."
)

INDEX_REBUILT = IF_RECOVERED + "the broker rebuilds the index."
INDEX_USED = "The broker uses the index as is."
SEEKS_SKIP_RECORDS = " Some seeks silently skip records."
VERSION_PREVENTS_START = "The broker does not start if the version is 256 or higher. Otherwise: "
NO_SEEK_MISSED = " In tests, no seek missed a record."
NO_FAILED_READ = " In tests, no read failed, from the start or from an offset."
NO_FAILED_LOOKUP = " In tests, no lookup by timestamp failed."
NO_WRONG_RECORD = " In tests, no read_committed consumer received a wrong record."
REBUILD_INDEX = (
    "With the broker stopped, run kfmt rebuild-index; it reads the log once and writes a correct "
    "index."
)
REBUILD_TRANSACTION_INDEX = (
    "With the broker stopped, run kfmt rebuild-index --all-files; it reads the log once and writes "
    "a correct index."
)
TIME_INDEX_EMPTY_EFFECT = (
    "The broker leaves it empty. Lookups by timestamp find nothing in any later segment; lookups "
    "within this segment are correct."
)
REBUILD_TIME_INDEX = (
    "With the broker stopped, run kfmt rebuild-index to write it. Or delete the segment's .index "
    "as well: a broker that finds neither recovers the segment, which takes as long as reading "
    "it, and rebuilds both."
)
REBUILD_WITHOUT_ZEROS = (
    "Before a broker starts, run kfmt rebuild-index to write one without the zeros. Or delete it "
    "together with the segment's .index: a broker that finds neither recovers the segment and "
    "rebuilds both."
)
REBUILD_ADVICE = (REBUILD_INDEX, REBUILD_TIME_INDEX, REBUILD_WITHOUT_ZEROS)
SNAPSHOT_REWRITTEN = "The broker rewrites the newest snapshot." + NO_WRONG_RECORD


def downgrade_for_damaged_log(code: FindingCode) -> FindingCode:
    """The code for a missing index of a damaged log, which decides what a start does."""
    return replace(
        code,
        severity=Severity.NOTE,
        advice="The log is damaged; see its finding. The next start rebuilds what it keeps.",
    )


def adapt_to_missing_offset_index(code: FindingCode) -> FindingCode:
    """The code for a time index, with the consequences if the offset index is also missing."""
    return replace(
        code,
        advice=None,
        after_crash="The broker rebuilds the index.",
        after_clean_shutdown=(
            "The broker recovers the segment because its offset index is missing, and rebuilds "
            "both indexes."
        ),
    )
