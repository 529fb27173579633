"""Every kind of finding in a log, with what it means and what a broker does about it.

Those of other files are in `files/index_codes.py`; all are in `CODES`.
"""

from kfmt_cli.core.finding import Code, Severity

CUT = (
    "A broker that recovers this log cuts it here and deletes every later segment; one that does "
    "not recover it fails each fetch that reaches this byte."
)
UNREADABLE = "Consumers fail on this batch; a broker that recovers the log does not look inside it."

CODES: dict[str, Code] = {}


def code(
    name: str,
    severity: Severity,
    meaning: str,
    advice: str | None = None,
    *,
    after_crash: str | None = None,
    after_clean_shutdown: str | None = None,
) -> Code:
    """Declare a kind of finding."""
    CODES[name] = Code(name, severity, meaning, after_crash, after_clean_shutdown, advice)
    return CODES[name]


_error, _warning = Severity.ERROR, Severity.WARNING

CRC_MISMATCH = code("crc-mismatch", _error, "The checksum of a batch does not fit its bytes.", CUT)
BATCH_TRUNCATED = code(
    "batch-truncated",
    _error,
    "The file ends inside a batch: an append that was not finished, or a file that was cut.",
    "A broker that recovers this log cuts the incomplete batch off; consumers never see it.",
)
LENGTH_NEGATIVE = code("batch-length-negative", _error, "A batch's length field is negative.", CUT)
LENGTH_TOO_SMALL = code(
    "batch-length-too-small", _error, "A batch's length field is less than it can be.", CUT
)
LENGTH_TOO_BIG = code(
    "batch-length-too-big",
    _error,
    "A batch's length field reaches past the next undamaged batch, or the end of the file.",
    "A broker takes everything up to the declared end for one batch: " + CUT[0].lower() + CUT[1:],
)
MAGIC_UNKNOWN = code("magic-unknown", _error, "A batch's magic is not 0, 1 or 2.", CUT)
CODEC_UNKNOWN = code(
    "codec-unknown", _error, "The codec in a batch's attributes does not exist.", UNREADABLE
)
ZERO_TAIL = code(
    "zero-tail",
    _error,
    "The file ends in zeros: space that was reserved and not written, or lost in a crash.",
    "Expected only in the active segment of a broker with log.preallocate=true. A broker that "
    "recovers this log cuts the zeros off; in an older segment it then deletes every later one.",
)
ZERO_HOLE = code(
    "zero-hole", _error, "Zeros where a batch should begin: pages that were lost in a crash.", CUT
)
GARBAGE = code("garbage", _error, "Bytes that are no batch.", CUT)
OFFSETS_BACKWARDS = code(
    "offsets-backwards",
    _error,
    "A batch does not begin after the last offset of the batch before it.",
    "A broker's index takes increasing offsets only: recovery empties the whole segment.",
)
OFFSET_OUT_OF_SEGMENT = code(
    "offset-out-of-segment",
    _error,
    "An offset is below the base offset in the file's name, or 2^31 or more above it.",
    "The index cannot hold such an offset; a recovering broker splits or empties the segment. A "
    "file that was renamed shows this too.",
)

DECOMPRESSION_FAILED = code(
    "decompression-failed", _error, "The records cannot be decompressed.", UNREADABLE
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
RECORD_MALFORMED = code("record-malformed", _error, "A record does not fit its bytes.", UNREADABLE)
RECORDS_COUNT_MISMATCH = code(
    "records-count-mismatch",
    _error,
    "A batch holds more or fewer records than it declares.",
    UNREADABLE,
)
RECORD_OFFSETS_BACKWARDS = code(
    "record-offsets-backwards",
    _error,
    "Offsets do not increase from record to record inside a batch.",
    "Consumers may skip or repeat these records.",
)
RECORD_OFFSET_OUT_OF_BATCH = code(
    "record-offset-out-of-batch",
    _error,
    "A record's offset lies outside its batch.",
    "Consumers that seek to the record's offset may miss it.",
)
MAX_TIMESTAMP_MISMATCH = code(
    "max-timestamp-mismatch",
    _warning,
    "A batch's max timestamp is not the largest of its records'.",
    "Look-ups by time and retention use the batch's value.",
)
CONTROL_MALFORMED = code(
    "control-malformed",
    _error,
    "A control record's key or value is too short for what it must say.",
    UNREADABLE,
)
MESSAGE_MALFORMED = code(
    "message-malformed", _error, "A message's key or value does not fit its size.", UNREADABLE
)
INNER_CRC_MISMATCH = code(
    "inner-crc-mismatch",
    _error,
    "The checksum of a message inside a wrapper does not fit its bytes.",
    "Brokers check it on produce only; consumers may get damaged messages.",
)
INNER_SET_MALFORMED = code(
    "inner-set-malformed", _error, "The message set inside a wrapper is damaged.", UNREADABLE
)
INNER_SET_TRUNCATED = code(
    "inner-set-truncated",
    _warning,
    "The message set inside a wrapper ends inside a message.",
    "Kafka's reader passes the incomplete message over in silence.",
)
WRAPPER_OFFSET_INVALID = code(
    "wrapper-offset-invalid",
    _error,
    "A wrapper's offset does not fit the offsets of the messages inside it.",
    UNREADABLE,
)

# Of files that are read some time after they were listed.
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
    "Rows behind that place are missing. Copy the disk first if it is failing.",
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
    "Rows behind its end are missing.",
)
FILE_GREW = code(
    "file-grew",
    Severity.NOTE,
    "A file is longer than it was when the work was planned.",
    "A broker is writing it. What it held at the planning was read.",
)
