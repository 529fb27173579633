"""What checks find in a directory: in its names, and among its segments."""

from __future__ import annotations

from kfmt_cli.findings.consequences import KEPT
from kfmt_cli.findings.finding import Severity, code

_error, _warning, _note = Severity.ERROR, Severity.WARNING, Severity.NOTE

OVERLAP = KEPT + (
    " Every record is delivered, and once; no seek was seen to miss a record, unless a segment "
    "lies inside the offsets of another one: it hides those of the other that come after its name."
)
GAP = KEPT + " The missing offsets are passed over without an error."
EMPTY = (
    "Between other segments: the broker keeps the log as it is, and the missing offsets are "
    "passed over without an error. As the last one: the log then ends at the segment's base "
    "offset, and new records get offsets from there."
)

SWAP_FILE = code(
    "swap-file",
    _error,
    "A .swap file: a broker was stopped while it swapped segments.",
    (
        "Compare the two files before a broker starts: what only the replaced one has is "
        "deleted. After the cleaner, the .swap file is the right one."
    ),
    after_crash=(
        "The broker replaces the file of the same name with it. Records that only the replaced "
        "file has are passed over without an error."
    ),
    after_clean_shutdown=(
        "The broker replaces the file of the same name with it. Records that only the replaced "
        "file has are passed over without an error. Where the swap file brings no time index, "
        "look-ups by time find nothing in every later segment."
    ),
)
NAME_NOT_NUMERIC = code(
    "name-not-numeric",
    _error,
    "A file has a segment file's suffix and a name that is no offset.",
    "Move the file out of the partition directory; the broker loses nothing by that.",
    after_crash="The broker does not start.",
    after_clean_shutdown="The broker does not start.",
)
DIRECTORY_NOT_A_PARTITION = code(
    "directory-not-a-partition",
    _error,
    "A directory in a log directory is not named topic-partition.",
    "Move the directory out of the log directory.",
    after_crash="The broker does not start.",
    after_clean_shutdown="The broker does not start.",
)
SEGMENTS_OVERLAP = code(
    "segments-overlap",
    _warning,
    "A segment has offsets that the next one has, too.",
    "Tools that go over every file see the records twice.",
    after_crash=OVERLAP,
    after_clean_shutdown=OVERLAP,
)
SEGMENTS_GAP = code(
    "segments-gap",
    _note,
    "Offsets are missing between two segments although the log has no other gaps.",
    (
        "Compaction and deleted records leave such gaps; otherwise a segment was lost, and only "
        "a replica has its records."
    ),
    after_crash=GAP,
    after_clean_shutdown=GAP,
)
LOG_EMPTY = code(
    "log-empty",
    _note,
    "A log of 0 bytes has offsets before it or after it.",
    (
        "Normal for a last segment in which nothing was written yet; otherwise only a "
        "replica has its records."
    ),
    after_crash=EMPTY,
    after_clean_shutdown=EMPTY,
)
