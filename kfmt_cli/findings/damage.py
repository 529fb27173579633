"""What may be found while a log is read; what checks find is in `findings/log.py`.

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
    "The file ends inside a batch: an append that was not finished, or a file that was cut.",
    COPY + RECOVER + "cuts only the incomplete batch" + RECOVER_PRICE,
    after_crash=CUT,
    after_clean_shutdown=(
        "In a closed segment the broker keeps the log as it is, and the batch's records are "
        "passed over without an error. In the last segment the log then ends at the segment's "
        "base offset: its records are gone for consumers and new ones take their offsets. If at "
        "most 17 bytes are left over there, every record is delivered."
    ),
)
LENGTH_NEGATIVE = code(
    "batch-length-negative",
    _error,
    "A batch's length field is negative.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + " In the last batch of the last segment: the broker does not start.",
)
LENGTH_TOO_SMALL = code(
    "batch-length-too-small",
    _error,
    "A batch's length field is less than it can be.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + " In the last batch of the last segment the broker does not start if the length is less "
    "than 14.",
)
LENGTH_TOO_BIG = code(
    "batch-length-too-big",
    _error,
    "A batch's length field reaches past the next undamaged batch, or the end of the file.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + " If the length is near 2^31, every fetch that reaches this batch fails as a whole. In "
    "the last batch of the last segment, the log then ends at the segment's base offset.",
)
MAGIC_UNKNOWN = code(
    "magic-unknown",
    _error,
    "A batch's magic is not 0, 1 or 2.",
    COPY.rstrip(),
    after_crash=(
        "Where a batch of magic 2 stood and the byte says 3 or more, the broker keeps the log "
        "as it is; consumers get an error at this batch. Otherwise the broker cuts the log here "
        "and deletes every later segment."
    ),
    after_clean_shutdown=STOP,
)
ZERO_TAIL = code(
    "zero-tail",
    _error,
    "The file ends in zeros: space that was reserved and not written, or lost in a crash.",
    "Normal for the active segment of a broker with log.preallocate=true that was killed. "
    "Otherwise: " + RECOVER + "cuts only the zeros" + RECOVER_PRICE,
    after_crash=CUT,
    after_clean_shutdown="In the last segment: the broker does not start. In a closed one the "
    "broker keeps the log as it is; consumers get an error at the zeros.",
)
ZERO_HOLE = code(
    "zero-hole",
    _error,
    "Zeros where a batch should begin: pages that were lost in a crash.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP,
)
GARBAGE = code(
    "garbage",
    _error,
    "Bytes that are no batch.",
    COPY + NEXT_SEGMENT,
    after_crash=CUT,
    after_clean_shutdown=STOP
    + " After the last batch of the last segment, the broker does not start if the bytes "
    "read as a length below 14; if they read as a length past the end of the file, every "
    "record is delivered.",
)
DECOMPRESSION_FAILED = code(
    "decompression-failed",
    _error,
    "The records cannot be decompressed.",
    REPLICA + NEXT_BATCH,
    after_crash=STOP,
    after_clean_shutdown=STOP,
)
DECOMPRESSION_LIMIT = code(
    "decompression-limit",
    _error,
    "Decompression was stopped: more comes out than the limit allows.",
    "If the batch is meant to be that large, raise --max-decompressed.",
)
RECORDS_LIMIT = code(
    "records-limit",
    _error,
    "A batch holds more records, or headers, than kfmt keeps in memory at once.",
    "No producer makes batches of millions of records; the first ones are shown.",
)
RECORD_MALFORMED = code(
    "record-malformed",
    _error,
    "A record does not fit its bytes.",
    REPLICA + NEXT_BATCH,
    after_crash=STOP_INSIDE,
    after_clean_shutdown=STOP_INSIDE,
)
RECORDS_COUNT_MISMATCH = code(
    "records-count-mismatch",
    _error,
    "A batch holds more or fewer records than it declares.",
    REPLICA + NEXT_BATCH,
    after_crash=STOP_INSIDE,
    after_clean_shutdown=STOP_INSIDE,
)
CONTROL_MALFORMED = code(
    "control-malformed",
    _error,
    "A control record's key or value is too short for what it must say.",
    REPLICA.rstrip(),
    after_crash="The broker does not start if it rebuilds the state of producers from this record.",
    after_clean_shutdown=KEPT
    + " If the key is too short, read_committed consumers get an error at this batch. If only "
    "the value is, no read_committed consumer was seen to get a wrong record.",
)
SNAPSHOT_HEADER_MISSING = code(
    "snapshot-header-missing",
    _error,
    "A KRaft snapshot does not begin with its header.",
)
SNAPSHOT_FOOTER_MISSING = code(
    "snapshot-footer-missing",
    _error,
    "A KRaft snapshot does not end with its footer: it was not finished, or its end is lost.",
)
PAYLOAD_MALFORMED = code(
    "payload-malformed",
    _error,
    "A key or a value of an internal topic is not the message that it says it is.",
)
MESSAGE_MALFORMED = code(
    "message-malformed",
    _error,
    "A message's key or value does not fit its size.",
    REPLICA + BEFORE_IT.lstrip(),
    after_crash=FETCH,
    after_clean_shutdown=FETCH,
)
INNER_CRC_MISMATCH = code(
    "inner-crc-mismatch",
    _error,
    "The checksum of a message inside a wrapper does not fit its bytes.",
    REPLICA.rstrip(),
    after_crash=STOP_INSIDE,
    after_clean_shutdown=STOP_INSIDE,
)
INNER_SET_MALFORMED = code(
    "inner-set-malformed",
    _error,
    "The message set inside a wrapper is damaged.",
    REPLICA.rstrip(),
    after_crash=STOP,
    after_clean_shutdown=STOP,
)
INNER_SET_TRUNCATED = code(
    "inner-set-truncated",
    _warning,
    "The message set inside a wrapper ends inside a message.",
    REPLICA.rstrip(),
    after_crash=KEPT + TRUNCATED_INSIDE,
    after_clean_shutdown=KEPT + TRUNCATED_INSIDE,
)
WRAPPER_OFFSET_INVALID = code(
    "wrapper-offset-invalid",
    _error,
    "A wrapper's offset does not fit the offsets of the messages inside it.",
    REPLICA.rstrip(),
    after_crash=STOP,
    after_clean_shutdown=STOP,
)
FILE_VANISHED = code(
    "file-vanished",
    _error,
    "A file is no longer there, or cannot be opened.",
    "Its rows are missing. A broker may have deleted it meanwhile; read a copy of its disk.",
)
FILE_UNREADABLE = code(
    "file-unreadable",
    _error,
    "The system could not read a file to its end.",
    "Rows after that place are missing. Copy the disk first if it is failing.",
)
DIRECTORY_UNREADABLE = code(
    "directory-unreadable",
    _error,
    "A directory cannot be listed.",
    "Nothing below it was looked at. Run kfmt as a user who may read it.",
)
FILE_SHRANK = code(
    "file-shrank",
    _error,
    "A file is shorter than it was when the work was planned.",
    "Rows after its end are missing.",
)
FILE_GREW = code(
    "file-grew",
    Severity.NOTE,
    "A file is longer than it was when the work was planned.",
    "A broker is writing it. What it held at the planning was read.",
)
