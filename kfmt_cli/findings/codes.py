"""Every kind of finding. Their texts are the page `findings.md` next to this file.

An entry of the page has the code's name, its severity and what it means for the file, and then what
a broker does after a crash and after a clean shutdown (*next start* if it does the same), what to
do, and the command that mends it. Each sentence about a broker was observed for every code that has
it, by `tests/interop/test_claims.py`. To add a kind of finding, add an entry and a line here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from kfmt_cli.findings.finding import (
    ADVICE_LABEL,
    AFTER_CLEAN_SHUTDOWN_LABEL,
    AFTER_CRASH_LABEL,
    NEXT_START_LABEL,
    FindingCode,
    Mend,
    Severity,
)
from kfmt_cli.findings.package_pages import read_page

_MENDS_LABEL = "mended by"
_HEADING = re.compile(r"`([a-z-]+)`\n\n\*\*(error|warning|note)\*\* · (.+)\n")
_ITEM = re.compile(r"^- \*(.+?)\*: (.+)$", re.MULTILINE)


def parse_codes(page: str) -> Iterator[tuple[str, list[FindingCode]]]:
    """The kinds of findings of each section of a page, by its title. Raises ValueError for an entry
    that is not understood."""
    for section in page.split("\n## ")[1:]:
        title, *entries = section.split("\n### ")
        yield title.partition("\n")[0], [_parse_code(entry) for entry in entries]


def _parse_code(entry: str) -> FindingCode:
    heading = _HEADING.match(entry)
    if heading is None:
        raise ValueError(f"an entry does not begin with its code, severity and meaning: {entry!r}")
    text_by_label = dict(_ITEM.findall(entry, heading.end()))
    start = text_by_label.pop(NEXT_START_LABEL, None)
    after_crash = text_by_label.pop(AFTER_CRASH_LABEL, start)
    after_clean_shutdown = text_by_label.pop(AFTER_CLEAN_SHUTDOWN_LABEL, start)
    advice = text_by_label.pop(ADVICE_LABEL, None)
    mends = text_by_label.pop(_MENDS_LABEL, None)
    if text_by_label:
        raise ValueError(f"{heading[1]}: unknown items: {', '.join(text_by_label)}")
    return FindingCode(
        heading[1],
        Severity(heading[2]),
        heading[3],
        after_crash,
        after_clean_shutdown,
        advice,
        frozenset() if mends is None else frozenset({Mend(mends)}),
    )


CODES_BY_SUBJECT = dict(parse_codes(read_page(__name__, "findings.md")))
"""All kinds of findings, by the title of their section, sorted by name."""


@cache
def finding_code_by_name() -> Mapping[str, FindingCode]:
    """All kinds of findings, by name."""
    return {code.name: code for codes in CODES_BY_SUBJECT.values() for code in codes}


_code = finding_code_by_name().__getitem__

BATCH_LENGTH_NEGATIVE = _code("batch-length-negative")
BATCH_LENGTH_TOO_BIG = _code("batch-length-too-big")
BATCH_LENGTH_TOO_SMALL = _code("batch-length-too-small")
BATCH_TRUNCATED = _code("batch-truncated")
CHANGED_WHILE_READ = _code("changed-while-read")
CODEC_UNKNOWN = _code("codec-unknown")
CONTROL_MALFORMED = _code("control-malformed")
CRC_MISMATCH = _code("crc-mismatch")
DECOMPRESSION_FAILED = _code("decompression-failed")
DECOMPRESSION_LIMIT = _code("decompression-limit")
DIRECTORY_UNREADABLE = _code("directory-unreadable")
FILE_ACCESS_DENIED = _code("file-access-denied")
FILE_GREW = _code("file-grew")
FILE_SHRANK = _code("file-shrank")
FILE_UNREADABLE = _code("file-unreadable")
FILE_VANISHED = _code("file-vanished")
GARBAGE = _code("garbage")
INNER_CRC_MISMATCH = _code("inner-crc-mismatch")
INNER_SET_MALFORMED = _code("inner-set-malformed")
INNER_SET_TRUNCATED = _code("inner-set-truncated")
MAGIC_UNKNOWN = _code("magic-unknown")
MAX_TIMESTAMP_MISMATCH = _code("max-timestamp-mismatch")
MESSAGE_MALFORMED = _code("message-malformed")
OFFSET_OUT_OF_SEGMENT = _code("offset-out-of-segment")
# A batch 2^31 or more above a name that fits the file's first batch.
OFFSET_OVERFLOW = replace(
    OFFSET_OUT_OF_SEGMENT,
    advice="The name matches the file's first batch: do not rename it. If later batches continue "
    "from "
    "this offset, the log was not rolled at 2^31 offsets: a broker that recovers the last segment "
    "moves the batch into a segment of its own. If they do not, the batch's offset is damaged.",
)
OFFSETS_BACKWARDS = _code("offsets-backwards")
PAYLOAD_MALFORMED = _code("payload-malformed")
RECORD_MALFORMED = _code("record-malformed")
RECORD_OFFSET_OUT_OF_BATCH = _code("record-offset-out-of-batch")
RECORD_OFFSETS_BACKWARDS = _code("record-offsets-backwards")
RECORDS_COUNT_MISMATCH = _code("records-count-mismatch")
_BEYOND_OFFSETS_EFFECT = (
    "The broker leaves the log unchanged. If the batch contains that many records, those whose "
    "offsets a consumer has already passed are silently skipped. If it does not, consumers get an "
    "error inside this batch."
)
# More records than offsets: only reading them shows which of the two is wrong.
RECORDS_BEYOND_OFFSETS = replace(
    RECORDS_COUNT_MISMATCH,
    after_crash=_BEYOND_OFFSETS_EFFECT,
    after_clean_shutdown=_BEYOND_OFFSETS_EFFECT,
    advice="If you have a healthy replica, restore the files from it; nothing is lost. "
    "kfmt dump --records shows every record that the batch contains.",
)
RECORDS_LIMIT = _code("records-limit")
SNAPSHOT_FOOTER_MISSING = _code("snapshot-footer-missing")
SNAPSHOT_HEADER_MISSING = _code("snapshot-header-missing")
WRAPPER_OFFSET_INVALID = _code("wrapper-offset-invalid")
ZERO_HOLE = _code("zero-hole")
ZERO_TAIL = _code("zero-tail")

CHECKPOINT_MALFORMED = _code("checkpoint-malformed")
CLEAN_SHUTDOWN_MALFORMED = _code("clean-shutdown-malformed")
INDEX_ENTRIES_NOT_INCREASING = _code("index-entries-not-increasing")
INDEX_ENTRY_FURTHER_ON = _code("index-entry-further-on")
INDEX_ENTRY_IN_DAMAGE = _code("index-entry-in-damage")
INDEX_ENTRY_NOT_AT_BATCH = _code("index-entry-not-at-batch")
INDEX_MISSING = _code("index-missing")
INDEX_OFFSET_BEFORE_BATCH = _code("index-offset-before-batch")
INDEX_OFFSET_NOT_IN_LOG = _code("index-offset-not-in-log")
INDEX_OFFSET_OUT_OF_SEGMENT = _code("index-offset-out-of-segment")
INDEX_POSITION_OUT_OF_LOG = _code("index-position-out-of-log")
INDEX_PREALLOCATED = _code("index-preallocated")
INDEX_SPARSE = _code("index-sparse")
INDEX_TRAILING_BYTES = _code("index-trailing-bytes")
INDEX_WITHOUT_LOG = _code("index-without-log")
INDEX_ZERO_TAIL = _code("index-zero-tail")
META_PROPERTIES_MALFORMED = _code("meta-properties-malformed")
NOTES_CRC_MISMATCH = _code("notes-crc-mismatch")
NOTES_MALFORMED = _code("notes-malformed")
PARTITION_METADATA_MALFORMED = _code("partition-metadata-malformed")
PRODUCERS_UNKNOWN = _code("producers-unknown")
QUORUM_STATE_MALFORMED = _code("quorum-state-malformed")
SNAPSHOT_CRC_MISMATCH = _code("snapshot-crc-mismatch")
SNAPSHOT_MALFORMED = _code("snapshot-malformed")
SNAPSHOT_TRAILING_BYTES = _code("snapshot-trailing-bytes")
TIME_INDEX_ABSENT = _code("time-index-absent")
TIME_INDEX_EMPTY = _code("time-index-empty")
TIME_INDEX_ENDS_EARLY = _code("time-index-ends-early")
TIME_INDEX_ENTRIES_NOT_INCREASING = _code("time-index-entries-not-increasing")
TIME_INDEX_MISSING = _code("time-index-missing")
TIME_INDEX_OFFSET_NOT_IN_LOG = _code("time-index-offset-not-in-log")
TIME_INDEX_OFFSET_OUT_OF_SEGMENT = _code("time-index-offset-out-of-segment")
TIME_INDEX_TIMESTAMP_NOT_IN_LOG = _code("time-index-timestamp-not-in-log")
TIME_INDEX_TIMESTAMP_NOT_LARGEST = _code("time-index-timestamp-not-largest")
TIME_INDEX_TRAILING_BYTES = _code("time-index-trailing-bytes")
TIME_INDEX_ZERO_TAIL = _code("time-index-zero-tail")
TRANSACTION_INDEX_ENTRIES_NOT_INCREASING = _code("transaction-index-entries-not-increasing")
TRANSACTION_INDEX_ENTRY_MISSING = _code("transaction-index-entry-missing")
TRANSACTION_INDEX_MISLEADING = _code("transaction-index-misleading")
TRANSACTION_INDEX_MISSING = _code("transaction-index-missing")
TRANSACTION_INDEX_NOT_A_MARKER = _code("transaction-index-not-a-marker")
TRANSACTION_INDEX_STABLE_OFFSET_LOW = _code("transaction-index-stable-offset-low")
TRANSACTION_INDEX_TRAILING_BYTES = _code("transaction-index-trailing-bytes")
TRANSACTION_INDEX_VERSION = _code("transaction-index-version")

CLUSTER_ID_DIFFERS = _code("cluster-id-differs")
DIRECTORY_NOT_A_PARTITION = _code("directory-not-a-partition")
LOG_DIRECTORY_NESTED = _code("log-directory-nested")
LOG_EMPTY = _code("log-empty")
LOG_NOT_CHECKED = _code("log-not-checked")
NAME_NOT_NUMERIC = _code("name-not-numeric")
SEGMENTS_GAP = _code("segments-gap")
SEGMENTS_OVERLAP = _code("segments-overlap")
SWAP_FILE = _code("swap-file")

CHECKPOINT_ABOVE_END = _code("checkpoint-above-end")
CHECKPOINT_WITHOUT_PARTITION = _code("checkpoint-without-partition")
COMMITTED_OFFSET_OUT_OF_RANGE = _code("committed-offset-out-of-range")
COORDINATOR_LOAD_FAILS = _code("coordinator-load-fails")
TRANSACTION_UNFINISHED = _code("transaction-unfinished")
DELETED_RECORDS_BACK = _code("deleted-records-back")
LEADER_EPOCH_BACK = _code("leader-epoch-back")
LEADER_EPOCH_CONTRADICTED = _code("leader-epoch-contradicted")
LEFT_OVER_FILE = _code("left-over-file")
LOG_START_ABOVE_END = _code("log-start-above-end")
METADATA_LOAD_FAILS = _code("metadata-load-fails")
OFFSETS_LOST = _code("offsets-lost")
OWNER_CONTRADICTED = _code("owner-contradicted")
PARTITION_MISNAMED = _code("partition-misnamed")
PARTITION_MISSING = _code("partition-missing")
PARTITION_SET_ASIDE = _code("partition-set-aside")
PARTITION_TWICE = _code("partition-twice")
PRODUCER_EPOCH_BACK = _code("producer-epoch-back")
PRODUCER_SEQUENCE_GAP = _code("producer-sequence-gap")
PRODUCER_SEQUENCE_REPEATED = _code("producer-sequence-repeated")
REPLICA_MISSING = _code("replica-missing")
REPLICA_MOVING = _code("replica-moving")
SNAPSHOT_CONTRADICTED = _code("snapshot-contradicted")
START_FAILS = _code("start-fails")
TRANSACTION_HANGING = _code("transaction-hanging")
TRANSACTION_MARKER_ALONE = _code("transaction-marker-alone")
TRANSACTION_MIXED = _code("transaction-mixed")
TRANSACTION_OPEN = _code("transaction-open")

UNREADABLE_FILE_CODES = frozenset({FILE_VANISHED, FILE_UNREADABLE})


def downgrade_for_damaged_log(code: FindingCode) -> FindingCode:
    """The code for a missing index of a damaged log, which decides what a start does."""
    return replace(
        code,
        severity=Severity.NOTE,
        advice="The log is damaged; see its finding. The next start rebuilds the index of the "
        "part that it keeps.",
        mends=frozenset(),
    )


def adapt_to_missing_offset_index(code: FindingCode) -> FindingCode:
    """The code for another index that is missing or empty, if the offset index is also missing: any
    start rebuilds it.

    Source: LogSegment.sanityCheck, LogLoader.recoverSegment.
    """
    return replace(
        code,
        severity=Severity.NOTE,
        advice=None,
        after_crash="The broker rebuilds the index.",
        after_clean_shutdown=(
            "The broker recovers the segment because its offset index is missing, and rebuilds "
            "all its indexes."
        ),
        mends=frozenset(),
    )


_CLEAN_SHUTDOWN_CONDITION = "If .kafka_cleanshutdown exists, delete it"


def adapt_to_next_start(code: FindingCode, is_after_clean_shutdown: bool) -> FindingCode:
    """The code with the advice for the start that is next, if that depends on it."""
    advice, condition, consequence = (code.advice or "").partition(_CLEAN_SHUTDOWN_CONDITION)
    if not condition:
        return code
    if is_after_clean_shutdown:
        verb = "delete" if advice.endswith(": ") else "Delete"
        return replace(code, advice=f"{advice}{verb} .kafka_cleanshutdown{consequence}")
    return replace(code, advice=advice.removesuffix("Otherwise: ").rstrip() or None)
