"""Findings from reading a log; findings from checks are in `findings/log.py`.

Each clause about a broker was observed: `tests/interop/test_claims.py` starts a broker on such a
log.
"""

from __future__ import annotations

from kfmt_cli.findings.consequences import (
    CONSUMERS_STOP,
    CONSUMERS_STOP_INSIDE_BATCH,
    COPY_FIRST,
    FETCH_FAILS,
    FORCE_RECOVERY,
    INNER_MESSAGE_TRUNCATED,
    LOG_TRUNCATED,
    LOG_UNCHANGED,
    ONE_BY_ONE_READS,
    RECOVERY_COST,
    RESTORE_FROM_REPLICA,
    SEEK_NEXT_BATCH,
    SEEK_NEXT_SEGMENT,
)
from kfmt_cli.findings.finding import FindingCode, error, note, warning


def _define_reading_stop_error(
    code_name: str, meaning: str, clean_shutdown_effect: str = ""
) -> FindingCode:
    """Damage at which reading stops. clean_shutdown_effect: what else happens without log
    recovery."""
    consumer_effect = CONSUMERS_STOP + clean_shutdown_effect
    return error(
        code_name,
        meaning,
        COPY_FIRST + SEEK_NEXT_SEGMENT,
        after_crash=LOG_TRUNCATED,
        after_clean_shutdown=consumer_effect,
    )


BATCH_TRUNCATED = error(
    "batch-truncated",
    "The file ends in the middle of a batch: an unfinished append, or a truncated file.",
    COPY_FIRST + FORCE_RECOVERY + "removes only the incomplete batch" + RECOVERY_COST,
    after_crash=LOG_TRUNCATED,
    after_clean_shutdown=(
        "In a closed segment, the broker leaves the log unchanged and the records of this batch "
        "are silently skipped. In the last segment, the log end offset is then the segment's "
        "base offset: consumers lose its records, and new records reuse their offsets. If at "
        "most 17 bytes are left over, every record is delivered."
    ),
)
LENGTH_NEGATIVE = _define_reading_stop_error(
    "batch-length-negative",
    "A batch's length field is negative.",
    " If it is the last batch of the last segment, the broker does not start.",
)
LENGTH_TOO_SMALL = _define_reading_stop_error(
    "batch-length-too-small",
    "A batch's length field is below the minimum.",
    " If it is the last batch of the last segment and the length is less than 14, the broker does "
    "not start.",
)
LENGTH_TOO_BIG = _define_reading_stop_error(
    "batch-length-too-big",
    "A batch's length field extends past the next undamaged batch or the end of the file.",
    " If the length is near 2^31, every fetch that includes this batch fails as a whole. If it is "
    "the last batch of the last segment, the log end offset is then the segment's base offset.",
)
MAGIC_UNKNOWN = error(
    "magic-unknown",
    "A batch's magic byte is not 0, 1 or 2.",
    COPY_FIRST.rstrip(),
    after_crash=(
        "If this was a magic 2 batch and the byte is now 3 or higher, the broker leaves the log "
        "unchanged and consumers get an error at this batch. Otherwise the broker truncates the "
        "log at this byte and deletes all later segments."
    ),
    after_clean_shutdown=CONSUMERS_STOP,
)
ZERO_TAIL = error(
    "zero-tail",
    "The file ends in zeros: space that was preallocated but never written, or lost in a crash.",
    "Normal for the active segment of a killed broker with log.preallocate=true. Otherwise: "
    + FORCE_RECOVERY
    + "removes only the zeros"
    + RECOVERY_COST,
    after_crash=LOG_TRUNCATED,
    after_clean_shutdown=(
        "In the last segment, the broker does not start. In a closed segment, the broker leaves "
        "the log unchanged and consumers get an error at the zeros."
    ),
)
ZERO_HOLE = _define_reading_stop_error(
    "zero-hole", "Zeros where a batch should begin: pages lost in a crash."
)
GARBAGE = _define_reading_stop_error(
    "garbage",
    "Bytes that are not a record batch.",
    " After the last batch of the last segment: if the bytes read as a length below 14, the broker "
    "does not start; if they read as a length past the end of the file, every record is delivered.",
)
DECOMPRESSION_FAILED = error(
    "decompression-failed",
    "A batch's records cannot be decompressed.",
    RESTORE_FROM_REPLICA + SEEK_NEXT_BATCH,
    on_start=CONSUMERS_STOP,
)
DECOMPRESSION_LIMIT = error(
    "decompression-limit",
    "Decompression was stopped: the output exceeds the limit.",
    "If the batch is really that large, raise --max-decompressed.",
)
RECORDS_LIMIT = error(
    "records-limit",
    "A batch has more records or headers than kfmt holds in memory at once.",
    "No producer writes batches of millions of records; only the first ones are shown.",
)
RECORD_MALFORMED = error(
    "record-malformed",
    "A record's fields do not match its length.",
    RESTORE_FROM_REPLICA + SEEK_NEXT_BATCH,
    on_start=CONSUMERS_STOP_INSIDE_BATCH,
)
RECORDS_COUNT_MISMATCH = error(
    "records-count-mismatch",
    "A batch's record count does not match the records it contains.",
    RESTORE_FROM_REPLICA + SEEK_NEXT_BATCH,
    on_start=CONSUMERS_STOP_INSIDE_BATCH
    + " If the count is 0, they skip the batch without an error.",
)
CONTROL_MALFORMED = error(
    "control-malformed",
    "A control record's key or value is too short.",
    RESTORE_FROM_REPLICA.rstrip(),
    after_crash="The broker does not start if it rebuilds producer state from this record.",
    after_clean_shutdown=(
        f"{LOG_UNCHANGED} If the key is too short, read_committed consumers get an error at "
        "this batch. If "
        "only the value is too short, no read_committed consumer received a wrong record in "
        "tests."
    ),
)
SNAPSHOT_HEADER_MISSING = error(
    "snapshot-header-missing",
    "A KRaft snapshot does not start with a SNAPSHOT_HEADER record.",
)
SNAPSHOT_FOOTER_MISSING = error(
    "snapshot-footer-missing",
    "A KRaft snapshot does not end with a SNAPSHOT_FOOTER record: it was never finished, or its "
    "end is lost.",
)
PAYLOAD_MALFORMED = error(
    "payload-malformed",
    "A key or value in an internal topic does not decode as the type it declares.",
)
MESSAGE_MALFORMED = error(
    "message-malformed",
    "A message's key or value does not match its declared size.",
    RESTORE_FROM_REPLICA + ONE_BY_ONE_READS.lstrip(),
    on_start=FETCH_FAILS,
)
INNER_CRC_MISMATCH = error(
    "inner-crc-mismatch",
    "An inner message of a compressed wrapper fails its checksum.",
    RESTORE_FROM_REPLICA.rstrip(),
    on_start=CONSUMERS_STOP_INSIDE_BATCH,
)
INNER_SET_MALFORMED = error(
    "inner-set-malformed",
    "The message set inside a compressed wrapper is damaged.",
    RESTORE_FROM_REPLICA.rstrip(),
    on_start=CONSUMERS_STOP,
)
INNER_SET_TRUNCATED = warning(
    "inner-set-truncated",
    "The message set inside a compressed wrapper ends in the middle of a message.",
    RESTORE_FROM_REPLICA.rstrip(),
    on_start=LOG_UNCHANGED + INNER_MESSAGE_TRUNCATED,
)
WRAPPER_OFFSET_INVALID = error(
    "wrapper-offset-invalid",
    "A wrapper's offset does not match the offsets of its inner messages.",
    RESTORE_FROM_REPLICA.rstrip(),
    on_start=CONSUMERS_STOP,
)
FILE_VANISHED = error(
    "file-vanished",
    "A file has disappeared or cannot be opened.",
    "Its rows are missing. A running broker may have deleted the file; read a copy of the disk "
    "instead.",
)
FILE_UNREADABLE = error(
    "file-unreadable",
    "The operating system could not read the whole file.",
    "Rows after this byte are missing. If the disk is failing, copy it first.",
)
UNREADABLE_FILE_CODES = frozenset({FILE_VANISHED, FILE_UNREADABLE})
"""Findings about files that could not be read, or not to their end."""
DIRECTORY_UNREADABLE = error(
    "directory-unreadable",
    "A directory cannot be listed.",
    "Nothing below it was checked. Run kfmt as a user with read permission.",
)
FILE_SHRANK = error(
    "file-shrank",
    "A file shrank after the job was planned.",
    "Rows after its end are missing.",
)
FILE_GREW = note(
    "file-grew",
    "A file grew after the job was planned.",
    "A broker is writing to it. Only the bytes that existed at planning time were read.",
)
