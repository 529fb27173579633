"""Findings from reading and writing files other than logs."""

from __future__ import annotations

from kfmt_cli.findings.consequences import (
    INDEX_REBUILT,
    INDEX_USED,
    NO_FAILED_LOOKUP,
    NO_SEEK_MISSED,
    NO_WRONG_RECORD,
    REBUILD_INDEX,
    SNAPSHOT_REWRITTEN,
)
from kfmt_cli.findings.finding import error, note, warning

TRAILING_BYTES_DISCARDED = "The broker discards the bytes after the last entry."
NO_START = "The broker does not start if this is its only log directory."
CHECKPOINT_EFFECT = (
    "The broker does not start if this is its only log directory and the version, the entry "
    "count, the format of a line, or a number in leader-epoch-checkpoint is wrong. With a "
    "malformed cleaner-offset-checkpoint, or a wrong number in recovery-point-offset-checkpoint "
    "or log-start-offset-checkpoint, the broker starts. With a wrong number in "
    "replication-offset-checkpoint, the broker starts but serves no partitions."
)

META_PROPERTIES_MALFORMED = error(
    "meta-properties-malformed",
    "meta.properties does not identify the owner of this log directory.",
    on_start=NO_START,
)
QUORUM_STATE_MALFORMED = error("quorum-state-malformed", "quorum-state is malformed.")
PARTITION_METADATA_MALFORMED = error(
    "partition-metadata-malformed",
    "partition.metadata is malformed.",
)
CLEAN_SHUTDOWN_MALFORMED = warning("clean-shutdown-malformed", ".kafka_cleanshutdown is malformed.")
NOTES_CRC_MISMATCH = error(
    "notes-crc-mismatch",
    "A message in the notes-v0 teaching layout fails its checksum.",
)
NOTES_MALFORMED = error(
    "notes-malformed",
    "A file in the notes-v0 teaching layout contains an incomplete or invalid message.",
)
INDEX_TRAILING_BYTES = error(
    "index-trailing-bytes",
    "The file ends with a partial entry.",
    after_crash=TRAILING_BYTES_DISCARDED,
    after_clean_shutdown=TRAILING_BYTES_DISCARDED + NO_SEEK_MISSED,
)
TIME_INDEX_TRAILING_BYTES = error(
    "time-index-trailing-bytes",
    "The file ends with a partial entry.",
    after_crash=TRAILING_BYTES_DISCARDED,
    after_clean_shutdown=TRAILING_BYTES_DISCARDED + NO_FAILED_LOOKUP,
)
TRANSACTION_INDEX_TRAILING_BYTES = error(
    "transaction-index-trailing-bytes",
    "The file ends with a partial entry.",
    REBUILD_INDEX,
    after_crash=INDEX_REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown=INDEX_USED + NO_WRONG_RECORD,
)
SNAPSHOT_CRC_MISMATCH = error(
    "snapshot-crc-mismatch",
    "A producer snapshot fails its checksum.",
    on_start=SNAPSHOT_REWRITTEN,
)
SNAPSHOT_MALFORMED = error(
    "snapshot-malformed",
    "A producer snapshot is malformed.",
    after_crash=SNAPSHOT_REWRITTEN,
    after_clean_shutdown=SNAPSHOT_REWRITTEN
    + " If only an older snapshot is malformed, the broker does not read it.",
)
SNAPSHOT_TRAILING_BYTES = error(
    "snapshot-trailing-bytes",
    "The file ends with a partial entry.",
    on_start=SNAPSHOT_REWRITTEN,
)
CHECKPOINT_MALFORMED = error(
    "checkpoint-malformed",
    "A checkpoint file is malformed.",
    "A broker starts without the file, so it can be removed. Without recovery points, the broker "
    "recovers every segment after a crash.",
    on_start=CHECKPOINT_EFFECT,
)
PRODUCERS_UNKNOWN = note(
    "producers-unknown",
    "Producer state before the start of this log is unknown.",
    "No producer snapshot is written, and the transaction index covers only transactions that "
    "begin in the given logs. Pass the whole partition, or put the snapshot next to the log.",
)
