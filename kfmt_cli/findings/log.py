"""Findings from checking a log."""

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
from kfmt_cli.findings.finding import error, warning

CRC_MISMATCH = error(
    "crc-mismatch",
    "A batch fails its checksum: the stored CRC does not match its bytes.",
    COPY + NEXT_BATCH,
    after_crash=CUT,
    after_clean_shutdown=STOP,
)
CODEC_UNKNOWN = error(
    "codec-unknown",
    "A batch's attributes name a compression codec that does not exist, or not in its magic.",
    REPLICA + NEXT_BATCH + BEFORE_IT,
    on_start=FETCH,
)
OFFSETS_BACKWARDS = error(
    "offsets-backwards",
    "A batch starts at or before the last offset of the previous batch.",
    "The records are still in the file: kfmt dump shows them.",
    after_crash=(
        "The broker leaves the log unchanged, unless an offset index entry falls on this batch: "
        "then it empties the segment and deletes all later ones. Records with offsets that a "
        "consumer has already passed are silently skipped."
    ),
    after_clean_shutdown=PASSED + "those with offsets that a consumer has already passed.",
)
OFFSET_OUT_OF_SEGMENT = error(
    "offset-out-of-segment",
    "An offset is below the base offset in the file name, or 2^31 or more above it.",
    "This happens when a file was renamed. Rename it and its indexes back, using the file's "
    "first offset.",
    after_crash=(
        "The broker does not start if a whole batch is below the base offset, or 2^31 above it "
        "in a closed segment. In the last segment, it moves the batch into a segment of its own. "
        "If only the first offsets of a batch are below, it leaves the log unchanged and some "
        "records are silently skipped."
    ),
    after_clean_shutdown=(
        "The broker leaves the log unchanged. If offsets are below the base offset, some "
        "records are silently skipped. If the last segment was renamed, the log end offset is "
        "set too low and new records reuse existing offsets."
    ),
)
RECORD_OFFSETS_BACKWARDS = error(
    "record-offsets-backwards",
    "Record offsets inside a batch do not increase.",
    "The records are still in the file: kfmt dump --records shows them.",
    on_start=PASSED + "those with offsets that a consumer has already passed.",
)
RECORD_OFFSET_OUT_OF_BATCH = error(
    "record-offset-out-of-batch",
    "A record's offset is outside its batch's offset range.",
    "The records are still in the file: kfmt dump --records shows them.",
    on_start=KEPT + OUT_OF_BATCH,
)
MAX_TIMESTAMP_MISMATCH = warning(
    "max-timestamp-mismatch",
    "A batch's max timestamp is not its records' largest timestamp.",
    after_crash=(
        f"{KEPT} The time index is built from the batch's max timestamp: if it is too high, "
        "lookups by timestamp find nothing in any later segment. Every record is delivered."
    ),
    after_clean_shutdown=KEPT + " Every record is delivered.",
)
