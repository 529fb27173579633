"""Sentences that several codes share: the effect on brokers and consumers, and what to do.

Each was observed for every code that uses it: `tests/interop/test_claims.py`.
"""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.findings.finding import Code, Severity

RECOVERED = "If the recovery point is not above this segment, "
CUT = RECOVERED + "the broker truncates the log at this byte and deletes all later segments."
KEPT = "The broker leaves the log unchanged."
STOP = KEPT + " Consumers get an error at this batch."
STOP_INSIDE = (
    KEPT + " Consumers receive the records before the fault, then get an error inside this batch."
)
FETCH = KEPT + (
    " Every fetch that includes this batch fails as a whole, so consumers do not get the "
    "records before it either."
)
PASSED = KEPT + " Some records are silently skipped: "
REPLICA = "If you have a healthy replica, restore the files from it; nothing is lost. "
COPY = (
    "Copy the directory before a broker recovers it: recovery also deletes the undamaged records "
    f"after this byte. {REPLICA}"
)
BEFORE_IT = " A consumer with max.poll.records=1 still receives the records before it."
NEXT_BATCH = (
    "Consumers can seek to the next batch and continue; they miss only the records in this one."
)
NEXT_SEGMENT = (
    "Consumers can seek to the next segment and continue; they miss the rest of this one."
)
RECOVER = (
    "Delete .kafka_cleanshutdown before the broker starts. It then recovers the last segment and "
)
RECOVER_PRICE = (
    ". Startup takes longer, because the broker also checks the last segment of every other "
    "partition."
)
OUT_OF_BATCH = (
    " If the record's offset is too high, that record and every record up to its offset are "
    "silently skipped. If only the batch's last offset is too low, every record is delivered."
)
TRUNCATED_INSIDE = (
    " The incomplete message is silently dropped; with magic 1, the other messages get offsets "
    "that are too high."
)

REBUILT = RECOVERED + "the broker rebuilds the index."
TAKEN = "The broker uses the index as is."
SOME_SKIP = " Some seeks silently skip records."
VERSION_STOPS = "The broker does not start if the version is 256 or higher. Otherwise: "
NO_SKIP = " In tests, no seek missed a record."
NO_FAILED_READ = " In tests, no read failed, from the start or from an offset."
NO_FAILED_LOOKUP = " In tests, no lookup by timestamp failed."
NO_WRONG_RECORD = " In tests, no read_committed consumer received a wrong record."
REBUILD_INDEX = (
    "With the broker stopped, run kfmt rebuild-index; it reads the log once and writes a correct "
    "index."
)
REBUILD_ABORTS = (
    "With the broker stopped, run kfmt rebuild-index --all-files; it reads the log once and writes "
    "a correct index."
)
TIMES_EMPTY = (
    "The broker leaves it empty. Lookups by timestamp find nothing in any later segment; lookups "
    "within this segment are correct."
)
TIMES_BOTH = (
    "With the broker stopped, run kfmt rebuild-index to write it. Or delete the segment's .index "
    "as well: a broker that finds neither recovers the segment, which takes as long as reading "
    "it, and rebuilds both."
)
TIMES_ZEROS = (
    "Before a broker starts, run kfmt rebuild-index to write one without the zeros. Or delete it "
    "together with the segment's .index: a broker that finds neither recovers the segment and "
    "rebuilds both."
)
WANT_INDEX = (REBUILD_INDEX, TIMES_BOTH, TIMES_ZEROS)
SNAPSHOT = "The broker rewrites the newest snapshot." + NO_WRONG_RECORD


def beside_damage(missing: Code) -> Code:
    """The finding about a missing index of a damaged log, which decides what a start does."""
    return replace(
        missing,
        severity=Severity.NOTE,
        advice="The log is damaged; see its finding. The next start rebuilds what it keeps.",
    )


def beside_missing_index(time_index: Code) -> Code:
    """The finding about a time index, with the consequences if the offset index is also missing."""
    return replace(
        time_index,
        advice=None,
        after_crash="The broker rebuilds the index.",
        after_clean_shutdown=(
            "The broker recovers the segment because its offset index is missing, and rebuilds "
            "both indexes."
        ),
    )
