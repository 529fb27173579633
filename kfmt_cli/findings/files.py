"""What may be found while a file that is no log is read."""

from __future__ import annotations

from kfmt_cli.findings.consequences import NO_WRONG_RECORD, REBUILD_INDEX, REBUILT, SNAPSHOT, TAKEN
from kfmt_cli.findings.finding import Severity, code

_error, _note = Severity.ERROR, Severity.NOTE

NO_START = "The broker does not start if this is its only log directory."
CHECKPOINT = (
    "The broker does not start if this is its only log directory and the version, the number of "
    "lines or a line's words are wrong, or a number of leader-epoch-checkpoint. With a malformed "
    "cleaner-offset-checkpoint, or a wrong number in recovery-point-offset-checkpoint or "
    "log-start-offset-checkpoint, the broker starts. With a wrong number in "
    "replication-offset-checkpoint, the broker starts and serves no partition."
)

META_PROPERTIES_MALFORMED = code(
    "meta-properties-malformed",
    _error,
    "meta.properties does not say whose log directory this is.",
    after_crash=NO_START,
    after_clean_shutdown=NO_START,
)
QUORUM_STATE_MALFORMED = code(
    "quorum-state-malformed",
    _error,
    "quorum-state is not what a broker writes.",
)
PARTITION_METADATA_MALFORMED = code(
    "partition-metadata-malformed",
    _error,
    "partition.metadata is not what a broker writes.",
)
CLEAN_SHUTDOWN_MALFORMED = code(
    "clean-shutdown-malformed",
    Severity.WARNING,
    ".kafka_cleanshutdown is not what a broker writes.",
)
NOTES_CRC_MISMATCH = code(
    "notes-crc-mismatch",
    _error,
    "The checksum of a message in the teaching layout does not fit its value.",
)
NOTES_MALFORMED = code(
    "notes-malformed",
    _error,
    "A file in the teaching layout does not continue with a whole message.",
)
INDEX_TRAILING_BYTES = code(
    "index-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    after_crash="The broker drops the bytes after the last entry.",
    after_clean_shutdown=(
        "The broker drops the bytes after the last entry; no seek was seen to miss a record."
    ),
)
TIME_INDEX_TRAILING_BYTES = code(
    "time-index-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    after_crash="The broker drops the bytes after the last entry.",
    after_clean_shutdown=(
        "The broker drops the bytes after the last entry; no look-up by time was seen to fail."
    ),
)
TRANSACTION_INDEX_TRAILING_BYTES = code(
    "transaction-index-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    REBUILD_INDEX,
    after_crash=REBUILT + NO_WRONG_RECORD,
    after_clean_shutdown=TAKEN + NO_WRONG_RECORD,
)
SNAPSHOT_CRC_MISMATCH = code(
    "snapshot-crc-mismatch",
    _error,
    "The checksum of a producer snapshot does not fit its bytes.",
    after_crash=SNAPSHOT,
    after_clean_shutdown=SNAPSHOT,
)
SNAPSHOT_MALFORMED = code(
    "snapshot-malformed",
    _error,
    "A producer snapshot is not what it says.",
    after_crash=SNAPSHOT,
    after_clean_shutdown=SNAPSHOT + " It does not read an older one.",
)
SNAPSHOT_TRAILING_BYTES = code(
    "snapshot-trailing-bytes",
    _error,
    "The file does not end with a whole entry.",
    after_crash=SNAPSHOT,
    after_clean_shutdown=SNAPSHOT,
)
CHECKPOINT_MALFORMED = code(
    "checkpoint-malformed",
    _error,
    "A checkpoint file is not what a broker writes.",
    "A broker starts without the file. Without recovery points it recovers every segment after a "
    "crash.",
    after_crash=CHECKPOINT,
    after_clean_shutdown=CHECKPOINT,
)
