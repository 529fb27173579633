"""What checks find in a log."""

from __future__ import annotations

from kfmt_cli.findings.consequences import (
    BEFORE_IT,
    COPY,
    CUT,
    FETCH,
    KEPT,
    NEXT_BATCH,
    OUT_OF_BATCH,
    PASSED,
    REPLICA,
    STOP,
)
from kfmt_cli.findings.finding import Severity, code

_error, _warning = Severity.ERROR, Severity.WARNING

CRC_MISMATCH = code(
    "crc-mismatch",
    _error,
    "The checksum of a batch does not fit its bytes.",
    COPY + NEXT_BATCH,
    after_crash=CUT,
    after_clean_shutdown=STOP,
)
CODEC_UNKNOWN = code(
    "codec-unknown",
    _error,
    "The codec in a batch's attributes does not exist.",
    REPLICA + NEXT_BATCH + BEFORE_IT,
    after_crash=FETCH,
    after_clean_shutdown=FETCH,
)
OFFSETS_BACKWARDS = code(
    "offsets-backwards",
    _error,
    "A batch does not begin after the last offset of the batch before it.",
    "The records are in the file: kfmt dump shows them.",
    after_crash=(
        "The broker keeps the log as it is, unless an entry of the offset index falls on the "
        "batch: then it empties the segment and deletes the later ones. Some records are passed "
        "over without an error: those whose offsets a consumer has already gone past."
    ),
    after_clean_shutdown=PASSED + "those whose offsets a consumer has already gone past.",
)
OFFSET_OUT_OF_SEGMENT = code(
    "offset-out-of-segment",
    _error,
    "An offset is below the base offset in the file's name, or 2^31 or more above it.",
    (
        "A file that was renamed shows this: give it back the name of its first offset, and its "
        "indexes with it."
    ),
    after_crash=(
        "The broker does not start if a whole batch lies below the base offset, or 2^31 above "
        "it in a closed segment. In the last segment it moves the batch to a segment of its "
        "own. If only a batch's first offsets lie below, it keeps the log as it is, and some "
        "records are passed over without an error."
    ),
    after_clean_shutdown=(
        "The broker keeps the log as it is. Where offsets lie below, some records are passed "
        "over without an error. If the last segment was renamed, the log end is taken too low "
        "and new records get offsets that are in use."
    ),
)
RECORD_OFFSETS_BACKWARDS = code(
    "record-offsets-backwards",
    _error,
    "Offsets do not increase from record to record inside a batch.",
    "The records are in the file: kfmt dump --records shows them.",
    after_crash=PASSED + "those whose offsets a consumer has already gone past.",
    after_clean_shutdown=PASSED + "those whose offsets a consumer has already gone past.",
)
RECORD_OFFSET_OUT_OF_BATCH = code(
    "record-offset-out-of-batch",
    _error,
    "A record's offset lies outside its batch.",
    "The records are in the file: kfmt dump --records shows them.",
    after_crash=KEPT + OUT_OF_BATCH,
    after_clean_shutdown=KEPT + OUT_OF_BATCH,
)
MAX_TIMESTAMP_MISMATCH = code(
    "max-timestamp-mismatch",
    _warning,
    "A batch's max timestamp is not the largest of its records'.",
    after_crash=KEPT
    + " The time index is made from the batch's value: if it is too high, look-ups by time "
    "find nothing in every later segment. Every record is delivered.",
    after_clean_shutdown=KEPT + " Every record is delivered.",
)
