"""Sentences that several codes share: what a broker does, what consumers see, what to do.

Each was observed for every code that has it: `tests/interop/test_claims.py`.
"""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.findings.finding import Code

CUT = "The broker cuts the log here and deletes every later segment."
KEPT = "The broker keeps the log as it is."
STOP = KEPT + " Consumers get an error at this batch."
STOP_INSIDE = (
    KEPT + " Consumers get an error inside this batch, after the records before the fault."
)
FETCH = (
    KEPT
    + " Every fetch that reaches this batch fails as a whole: consumers do not get the records "
    "before it, either."
)
PASSED = KEPT + " Some records are passed over without an error: "
REPLICA = "Restoring the files from a healthy replica loses nothing. "
COPY = (
    "Copy the directory before a broker recovers it, because recovery also deletes undamaged "
    f"records after this byte. {REPLICA}"
)
BEFORE_IT = " A consumer with max.poll.records=1 is given the records before it."
NEXT_BATCH = "Consumers that seek to the next batch read on; this one's records are lost to them."
NEXT_SEGMENT = (
    "Consumers that seek to the next segment read on; the rest of this one is lost to them."
)
RECOVER = (
    "Delete .kafka_cleanshutdown before the broker starts: it then recovers the last segment and "
)
RECOVER_PRICE = (
    ", and it starts more slowly, as it checks the last segments of all other partitions, too."
)
OUT_OF_BATCH = (
    " If the record's offset is too high, it and those up to its offset are passed over without an "
    "error. If only the batch's last offset is too low, every record is delivered."
)
TRUNCATED_INSIDE = (
    " The incomplete message is left out without an error; in magic 1 the others are given offsets "
    "too high."
)

REBUILT = "The broker rebuilds the index."
TAKEN = "The broker takes the index as it is."
NO_SKIP = " No seek was seen to miss a record."
NO_FAILED_READ = " No read was seen to fail, from the start or from an offset."
NO_FAILED_LOOKUP = " No look-up by time was seen to fail."
NO_WRONG_RECORD = " No read_committed consumer was seen to get a wrong record."
REBUILD_INDEX = (
    "With the broker stopped, kfmt rebuild-index writes a right one; it reads the log once."
)
TIMES_EMPTY = (
    "The broker leaves it empty: look-ups by time find nothing in every later segment, and those "
    "in this segment are right."
)
TIMES_BOTH = (
    "With the broker stopped, kfmt rebuild-index writes it. Or delete the .index of the segment, "
    "too: a broker that finds neither recovers the segment, which takes as long as reading it, and "
    "rebuilds both."
)
SNAPSHOT = "The broker writes the newest one anew." + NO_WRONG_RECORD


def beside_missing_index(time_index: Code) -> Code:
    """The finding about a time index with what follows when the offset index is missing, too."""
    return replace(
        time_index,
        advice=None,
        after_crash=REBUILT,
        after_clean_shutdown="The broker recovers the segment because its offset index is missing, "
        "and fills both indexes.",
    )
