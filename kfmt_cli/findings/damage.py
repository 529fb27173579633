"""Findings from reading a log; findings from checks are in `findings/log.py`.

Each clause about a broker was observed: `tests/interop/test_claims.py` starts one on such a log.
"""

from __future__ import annotations

from kfmt_cli.findings.consequences import (
    BEFORE_IT,
    COPY,
    CUT,
    FETCH,
    KEPT,
    NEXT_BATCH,
    NEXT_SEGMENT,
    RECOVER,
    RECOVER_PRICE,
    REPLICA,
    STOP,
    STOP_INSIDE,
    TRUNCATED_INSIDE,
)
from kfmt_cli.findings.finding import Severity, code

_error, _warning = Severity.ERROR, Severity.WARNING

BATCH_TRUNCATED = code(
    "batch-truncated",
    _error,
    "The file ends in the middle of a batch: an unfinished append, or a truncated file.",
    COPY + RECOVER + "removes only the incomplete batch" + RECOVER_PRICE,
    after_crash=CUT,
    after_clean_shutdown=(
        "In a closed segment, the broker leaves the log unchanged and the records of this batch "
        "are silently skipped. In the last segment, the log end offset is then the segment's "
        "base offset: consumers lose its records, and new records reuse their offsets. If at "
        "most 17 bytes are left over, every record is delivered."
    ),
)
LENGTH_NEGATIVE = code(
    "batch-length-negative",
    _error,
    "A batch's length field is negative.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + " If it is the last batch of the last segment, the broker does not start.",
)
LENGTH_TOO_SMALL = code(
    "batch-length-too-small",
    _error,
    "A batch's length field is below the minimum.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + (
        " If it is the last batch of the last segment and the length is less than 14, the broker "
        "does not start."
    ),
)
LENGTH_TOO_BIG = code(
    "batch-length-too-big",
    _error,
    "A batch's length field extends past the next undamaged batch or the end of the file.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + (
        " If the length is near 2^31, every fetch that includes this batch fails as a whole. If "
        "it is the last batch of the last segment, the log end offset is then the segment's base "
        "offset."
    ),
)
MAGIC_UNKNOWN = code(
    "magic-unknown",
    _error,
    "A batch's magic byte is not 0, 1 or 2.",
    COPY.rstrip(),
    after_crash=(
        "If this was a magic 2 batch and the byte is now 3 or higher, the broker leaves the log "
        "unchanged and consumers get an error at this batch. Otherwise the broker truncates the "
        "log at this byte and deletes all later segments."
    ),
    after_clean_shutdown=STOP,
)
ZERO_TAIL = code(
    "zero-tail",
    _error,
    "The file ends in zeros: space that was preallocated but never written, or lost in a crash.",
    "Normal for the active segment of a killed broker with log.preallocate=true. Otherwise: "
    + RECOVER
    + "removes only the zeros"
    + RECOVER_PRICE,
    after_crash=CUT,
    after_clean_shutdown=(
        "In the last segment, the broker does not start. In a closed segment, the broker leaves "
        "the log unchanged and consumers get an error at the zeros."
    ),
)
ZERO_HOLE = code(
    "zero-hole",
    _error,
    "Zeros where a batch should begin: pages lost in a crash.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP,
)
GARBAGE = code(
    "garbage",
    _error,
    "Bytes that are not a record batch.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + (
        " After the last batch of the last segment: if the bytes read as a length below 14, the "
        "broker does not start; if they read as a length past the end of the file, every record "
        "is delivered."
    ),
)
DECOMPRESSION_FAILED = code(
    "decompression-failed",
    _error,
    "A batch's records cannot be decompressed.",
    REPLICA + NEXT_BATCH,
    on_start=STOP,
)
DECOMPRESSION_LIMIT = code(
    "decompression-limit",
    _error,
    "Decompression was stopped: the output exceeds the limit.",
    "If the batch is really that large, raise --max-decompressed.",
)
RECORDS_LIMIT = code(
    "records-limit",
    _error,
    "A batch has more records or headers than kfmt holds in memory at once.",
    "No producer writes batches of millions of records; only the first ones are shown.",
)
RECORD_MALFORMED = code(
    "record-malformed",
    _error,
    "A record's fields do not match its length.",
    REPLICA + NEXT_BATCH,
    on_start=STOP_INSIDE,
)
RECORDS_COUNT_MISMATCH = code(
    "records-count-mismatch",
    _error,
    "A batch's record count does not match the records it contains.",
    REPLICA + NEXT_BATCH,
    on_start=STOP_INSIDE + " If the count is 0, they skip the batch without an error.",
)
CONTROL_MALFORMED = code(
    "control-malformed",
    _error,
    "A control record's key or value is too short.",
    REPLICA.rstrip(),
    after_crash="The broker does not start if it rebuilds producer state from this record.",
    after_clean_shutdown=KEPT
    + (
        " If the key is too short, read_committed consumers get an error at this batch. If only "
        "the value is too short, no read_committed consumer received a wrong record in tests."
    ),
)
SNAPSHOT_HEADER_MISSING = code(
    "snapshot-header-missing",
    _error,
    "A KRaft snapshot does not start with a SNAPSHOT_HEADER record.",
)
SNAPSHOT_FOOTER_MISSING = code(
    "snapshot-footer-missing",
    _error,
    "A KRaft snapshot does not end with a SNAPSHOT_FOOTER record: it was never finished, or its "
    "end is lost.",
)
PAYLOAD_MALFORMED = code(
    "payload-malformed",
    _error,
    "A key or value in an internal topic does not decode as the type it declares.",
)
MESSAGE_MALFORMED = code(
    "message-malformed",
    _error,
    "A message's key or value does not match its declared size.",
    REPLICA + BEFORE_IT.lstrip(),
    on_start=FETCH,
)
INNER_CRC_MISMATCH = code(
    "inner-crc-mismatch",
    _error,
    "An inner message of a compressed wrapper fails its checksum.",
    REPLICA.rstrip(),
    on_start=STOP_INSIDE,
)
INNER_SET_MALFORMED = code(
    "inner-set-malformed",
    _error,
    "The message set inside a compressed wrapper is damaged.",
    REPLICA.rstrip(),
    on_start=STOP,
)
INNER_SET_TRUNCATED = code(
    "inner-set-truncated",
    _warning,
    "The message set inside a compressed wrapper ends in the middle of a message.",
    REPLICA.rstrip(),
    on_start=KEPT + TRUNCATED_INSIDE,
)
WRAPPER_OFFSET_INVALID = code(
    "wrapper-offset-invalid",
    _error,
    "A wrapper's offset does not match the offsets of its inner messages.",
    REPLICA.rstrip(),
    on_start=STOP,
)
FILE_VANISHED = code(
    "file-vanished",
    _error,
    "A file has disappeared or cannot be opened.",
    "Its rows are missing. A running broker may have deleted the file; read a copy of the disk "
    "instead.",
)
FILE_UNREADABLE = code(
    "file-unreadable",
    _error,
    "The operating system could not read the whole file.",
    "Rows after this byte are missing. If the disk is failing, copy it first.",
)
UNREAD = frozenset({FILE_VANISHED, FILE_UNREADABLE})
"""Findings about files that could not be read, or not to their end."""
DIRECTORY_UNREADABLE = code(
    "directory-unreadable",
    _error,
    "A directory cannot be listed.",
    "Nothing below it was checked. Run kfmt as a user with read permission.",
)
FILE_SHRANK = code(
    "file-shrank",
    _error,
    "A file shrank after the job was planned.",
    "Rows after its end are missing.",
)
FILE_GREW = code(
    "file-grew",
    Severity.NOTE,
    "A file grew after the job was planned.",
    "A broker is writing to it. Only the bytes that existed at planning time were read.",
)
