"""Findings from checking a directory: in its names and among its segments."""

from __future__ import annotations

from kfmt_cli.findings.consequences import LOG_UNCHANGED
from kfmt_cli.findings.finding import error, note, warning

OVERLAP_EFFECT = LOG_UNCHANGED + (
    " Every record is delivered exactly once, and in tests no seek missed a record, with one "
    "exception: a segment that lies inside another segment's offset range hides the other's "
    "records from its own base offset onward."
)
GAP_EFFECT = LOG_UNCHANGED + " The missing offsets are silently skipped."
EMPTY_EFFECT = (
    "Between other segments, the broker leaves the log unchanged and the missing offsets are "
    "silently skipped. If it is the last segment, the log end offset is then the segment's base "
    "offset, and new records get offsets from there."
)

SWAP_FILE = error(
    "swap-file",
    "A .swap file: a broker was stopped while replacing segments.",
    "Compare the two files before a broker starts: records that exist only in the replaced "
    "file are deleted. If the swap came from the log cleaner, the .swap file is the correct "
    "one.",
    after_crash=(
        "The broker replaces the file of the same name with it. Records that exist only in the "
        "replaced file are silently skipped."
    ),
    after_clean_shutdown=(
        "The broker replaces the file of the same name with it. Records that exist only in the "
        "replaced file are silently skipped. If the swap has no time index, lookups by timestamp "
        "find nothing in any later segment."
    ),
)
NAME_NOT_NUMERIC = error(
    "name-not-numeric",
    "A file has a segment file's suffix, but its name is not an offset.",
    "Move the file out of the partition directory; the broker does not need it.",
    on_start="The broker does not start.",
)
DIRECTORY_NOT_A_PARTITION = error(
    "directory-not-a-partition",
    "A directory in a log directory is not named TOPIC-PARTITION.",
    "Move the directory out of the log directory.",
    on_start="The broker does not start.",
)
SEGMENTS_OVERLAP = warning(
    "segments-overlap",
    "Two consecutive segments contain the same offsets.",
    "Tools that read every file see these records twice.",
    on_start=OVERLAP_EFFECT,
)
SEGMENTS_GAP = note(
    "segments-gap",
    "Offsets are missing between two segments, although the log has no other gaps.",
    "Compaction and record deletion leave such gaps. Otherwise a segment was lost, and only "
    "a replica has its records.",
    on_start=GAP_EFFECT,
)
LOG_EMPTY = note(
    "log-empty",
    "A log is empty (0 bytes) although there are offsets before or after it.",
    "Normal for an active segment that nothing has been written to yet. Otherwise only a "
    "replica has its records.",
    on_start=EMPTY_EFFECT,
)
LOG_NOT_CHECKED = warning(
    "log-not-checked",
    "A file that may be a log under another name was not checked.",
    "To check it, name it as PATH.",
)
