"""Every kind of finding in directories and between segments, as in `files/codes.py`."""

from __future__ import annotations

from kfmt_cli.core.finding import Severity
from kfmt_cli.files.codes import code

_error, _warning, _note = Severity.ERROR, Severity.WARNING, Severity.NOTE
_NO_START = "The broker does not start."
_BOTH_KEPT = (
    "The broker starts and keeps both; a consumer that reads on from before them gets each offset "
    "once."
)
_GAP = "The broker starts; the offsets are a gap."

SWAP_FILE = code(
    "swap-file",
    _warning,
    "A log that was to replace others when the broker stopped.",
    after_crash="It replaces the log of its name.",
    after_clean_shutdown="It replaces the log of its name.",
)
NAME_NOT_NUMERIC = code(
    "name-not-numeric",
    _error,
    "A log, an index or a snapshot beside segments has a name that does not begin with an offset.",
    after_crash=_NO_START,
    after_clean_shutdown=_NO_START,
)
DIRECTORY_NOT_A_PARTITION = code(
    "directory-not-a-partition",
    _error,
    "A directory in a log directory is not named for a topic and a partition.",
    after_crash=_NO_START,
    after_clean_shutdown=_NO_START,
)
SEGMENTS_OVERLAP = code(
    "segments-overlap",
    _warning,
    "A segment begins at an offset that a segment before it holds, too.",
    after_crash=_BOTH_KEPT,
    after_clean_shutdown=_BOTH_KEPT,
)
SEGMENTS_GAP = code(
    "segments-gap",
    _note,
    "Offsets between two segments are in neither, and nothing else in the two is missing, as it "
    "is where a log was compacted.",
    after_crash=_GAP,
    after_clean_shutdown=_GAP,
)
LOG_EMPTY = code(
    "log-empty",
    _note,
    "A log of 0 bytes has segments behind it.",
    after_crash=_GAP,
    after_clean_shutdown=_GAP,
)
