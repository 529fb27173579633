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
from kfmt_cli.findings.finding import Code, error, note, warning


def _unreadable(name: str, meaning: str, otherwise: str = "") -> Code:
    """Damage at which reading stops. otherwise: what else happens without log recovery."""
    stop = STOP + otherwise
    return error(name, meaning, COPY + NEXT_SEGMENT, after_crash=CUT, after_clean_shutdown=stop)


BATCH_TRUNCATED = error(
    "batch-truncated",
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
LENGTH_NEGATIVE = _unreadable(
    "batch-length-negative",
    "A batch's length field is negative.",
    " If it is the last batch of the last segment, the broker does not start.",
)
LENGTH_TOO_SMALL = _unreadable(
    "batch-length-too-small",
    "A batch's length field is below the minimum.",
    " If it is the last batch of the last segment and the length is less than 14, the broker does "
    "not start.",
)
LENGTH_TOO_BIG = _unreadable(
    "batch-length-too-big",
    "A batch's length field extends past the next undamaged batch or the end of the file.",
    " If the length is near 2^31, every fetch that includes this batch fails as a whole. If it is "
    "the last batch of the last segment, the log end offset is then the segment's base offset.",
)
MAGIC_UNKNOWN = error(
    "magic-unknown",
    "A batch's magic byte is not 0, 1 or 2.",
    COPY.rstrip(),
    after_crash=(
        "If this was a magic 2 batch and the byte is now 3 or higher, the broker leaves the log "
        "unchanged and consumers get an error at this batch. Otherwise the broker truncates the "
        "log at this byte and deletes all later segments."
    ),
    after_clean_shutdown=STOP,
)
ZERO_TAIL = error(
    "zero-tail",
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
ZERO_HOLE = _unreadable("zero-hole", "Zeros where a batch should begin: pages lost in a crash.")
GARBAGE = _unreadable(
    "garbage",
    "Bytes that are not a record batch.",
    " After the last batch of the last segment: if the bytes read as a length below 14, the broker "
    "does not start; if they read as a length past the end of the file, every record is delivered.",
)
DECOMPRESSION_FAILED = error(
    "decompression-failed",
    "A batch's records cannot be decompressed.",
    REPLICA + NEXT_BATCH,
    on_start=STOP,
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
    REPLICA + NEXT_BATCH,
    on_start=STOP_INSIDE,
)
RECORDS_COUNT_MISMATCH = error(
    "records-count-mismatch",
    "A batch's record count does not match the records it contains.",
    REPLICA + NEXT_BATCH,
    on_start=STOP_INSIDE + " If the count is 0, they skip the batch without an error.",
)
CONTROL_MALFORMED = error(
    "control-malformed",
    "A control record's key or value is too short.",
    REPLICA.rstrip(),
    after_crash="The broker does not start if it rebuilds producer state from this record.",
    after_clean_shutdown=(
        f"{KEPT} If the key is too short, read_committed consumers get an error at this batch. If "
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
    REPLICA + BEFORE_IT.lstrip(),
    on_start=FETCH,
)
INNER_CRC_MISMATCH = error(
    "inner-crc-mismatch",
    "An inner message of a compressed wrapper fails its checksum.",
    REPLICA.rstrip(),
    on_start=STOP_INSIDE,
)
INNER_SET_MALFORMED = error(
    "inner-set-malformed",
    "The message set inside a compressed wrapper is damaged.",
    REPLICA.rstrip(),
    on_start=STOP,
)
INNER_SET_TRUNCATED = warning(
    "inner-set-truncated",
    "The message set inside a compressed wrapper ends in the middle of a message.",
    REPLICA.rstrip(),
    on_start=KEPT + TRUNCATED_INSIDE,
)
WRAPPER_OFFSET_INVALID = error(
    "wrapper-offset-invalid",
    "A wrapper's offset does not match the offsets of its inner messages.",
    REPLICA.rstrip(),
    on_start=STOP,
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
UNREAD = frozenset({FILE_VANISHED, FILE_UNREADABLE})
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
