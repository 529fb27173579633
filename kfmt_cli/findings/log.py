"""Findings from checking a log."""

from __future__ import annotations

from kfmt_cli.findings.consequences import (
    CONSUMERS_STOP,
    COPY_FIRST,
    FETCH_FAILS,
    LOG_TRUNCATED,
    LOG_UNCHANGED,
    OFFSET_OUT_OF_BATCH,
    ONE_BY_ONE_READS,
    RECORDS_SKIPPED,
    RESTORE_FROM_REPLICA,
    SEEK_NEXT_BATCH,
)
from kfmt_cli.findings.finding import error, warning

CRC_MISMATCH = error(
    "crc-mismatch",
    "A batch fails its checksum: the stored CRC does not match its bytes.",
    COPY_FIRST + SEEK_NEXT_BATCH,
    after_crash=LOG_TRUNCATED,
    after_clean_shutdown=CONSUMERS_STOP,
)
CODEC_UNKNOWN = error(
    "codec-unknown",
    "A batch's attributes name a compression codec that does not exist, or not in its magic.",
    RESTORE_FROM_REPLICA + SEEK_NEXT_BATCH + ONE_BY_ONE_READS,
    on_start=FETCH_FAILS,
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
    after_clean_shutdown=RECORDS_SKIPPED + "those with offsets that a consumer has already passed.",
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
    on_start=RECORDS_SKIPPED + "those with offsets that a consumer has already passed.",
)
RECORD_OFFSET_OUT_OF_BATCH = error(
    "record-offset-out-of-batch",
    "A record's offset is outside its batch's offset range.",
    "The records are still in the file: kfmt dump --records shows them.",
    on_start=LOG_UNCHANGED + OFFSET_OUT_OF_BATCH,
)
MAX_TIMESTAMP_MISMATCH = warning(
    "max-timestamp-mismatch",
    "A batch's max timestamp is not its records' largest timestamp.",
    after_crash=(
        f"{LOG_UNCHANGED} The time index is built from the batch's max timestamp: if it is too "
        "high, lookups by timestamp find nothing in any later segment. Every record is delivered."
    ),
    after_clean_shutdown=LOG_UNCHANGED + " Every record is delivered.",
)
