"""The tables that segments are read as, on Spark and in Parquet files.

All columns are nullable; timestamps are in microseconds, UTC. Null means that the format has no
such field, or that the file has no value (a timestamp or producer id of -1).
"""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.rows.column import Column, ColumnKind, RowType, column_of, milliseconds, number
from kfmt_cli.rows.documents import COUNTED_FINDINGS, FINDING
from kfmt_cli.rows.result import ResultType
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.found import FOUND
from kfmt_cli.rows.types.record import DECODED_RECORD

# Prefix of the source of a record column that comes from the record's batch.
OF_BATCH = "batch."

_FILE = Column("file", ColumnKind.TEXT, "The file's path.")
_PLACE = (
    Column("topic", ColumnKind.TEXT, "From the directory name."),
    Column("partition", doc="From the directory name.", bits=32),
)
_TOPIC_ID = Column(
    "topic_id", ColumnKind.TEXT, "From partition.metadata, or from a tiered segment's manifest."
)
_TIMESTAMP_MS = Column(
    "timestamp_ms",
    doc="The timestamp in milliseconds, also where `timestamp` cannot hold it.",
    source="timestamp",
    given="has_timestamp",
    none=-1,
)
_NAMES_OF_RECORDS = ("offset", "timestamp", "timestamp_type", "key", "value")
_NAMES_OF_BATCHES = ("producer_id", "producer_epoch")


def _of_batch(name: str) -> Column:
    """A column of the batch, repeated for each of its records."""
    column = BATCH[name]
    given = f"{OF_BATCH}{column.given}" if column.given else ""
    bits = 64 if column.bits == 64 else 32
    return replace(column, source=f"{OF_BATCH}{column.at}", given=given, bits=bits)


def _decoded(name: str) -> Column:
    """Text from a topic's decoder; not every record has it."""
    return replace(DECODED_RECORD[name], only=None, given=f"has_{name}")


_HEADERS = replace(
    DECODED_RECORD["headers"],
    doc=f"{DECODED_RECORD['headers'].doc} `key_bytes` is null unless a key is not UTF-8.",
)
RECORDS = RowType(
    "records",
    "One row per record.",
    (
        *_PLACE,
        *(DECODED_RECORD[name] for name in _NAMES_OF_RECORDS),
        _HEADERS,
        *map(_of_batch, _NAMES_OF_BATCHES),
        DECODED_RECORD["sequence"],
        *map(_of_batch, ("transactional", "control")),
        _FILE,
        DECODED_RECORD["position"],
        DECODED_RECORD["batch_position"],
        *map(_decoded, ("decoded_key", "decoded_value")),
        _TOPIC_ID,
        _TIMESTAMP_MS,
    ),
)
SNAPSHOT_RECORDS = replace(
    RECORDS,
    name="snapshot_records",
    doc="One row per record of a KRaft snapshot. The metadata log has them at other offsets.",
)
BATCHES = RowType(
    "batches",
    "One row per batch.",
    (_FILE, *_PLACE, *(replace(leaf, bits=64) for leaf in BATCH.leaves), _TOPIC_ID),
)
SEGMENTS = RowType(
    "segments",
    "One row per file.",
    (
        _FILE,
        *_PLACE,
        number("base_offset", "From the file name."),
        number("bytes", "Size of the file."),
        number("batches", "Readable batches."),
        number("records", "Records declared in batch headers; messages for magic 0 and 1."),
        number("first_offset", "First offset."),
        number("last_offset", "Last offset."),
        milliseconds("min_timestamp", "Smallest max timestamp of any batch."),
        milliseconds("max_timestamp", "Largest max timestamp of any batch."),
        Column("magics", ColumnKind.TEXTS, "Message formats found."),
        Column("codecs", ColumnKind.TEXTS, "Codecs found."),
        *COUNTED_FINDINGS,
    ),
)
INDEX_ENTRIES = RowType(
    "index_entries",
    "One row per offset index or time index entry.",
    (
        _FILE,
        *_PLACE,
        Column("kind", ColumnKind.TEXT, "offset_index or time_index."),
        number("position", "Byte in the index."),
        column_of(
            TIME_INDEX_ENTRY.field("timestamp"), none=-1, doc="Timestamp of a time index entry."
        ),
        column_of(OFFSET_INDEX_ENTRY.field("relative_offset"), bits=64),
        number("offset", "Offset."),
        column_of(OFFSET_INDEX_ENTRY.field("log_position"), bits=64),
    ),
)
FINDINGS = RowType(
    "findings",
    "One row per finding.",
    (
        _FILE,
        *_PLACE,
        *(
            Column(
                column.name,
                ColumnKind.NUMBER if column.kind is ColumnKind.NUMBER else ColumnKind.TEXT,
                column.doc,
            )
            for column in FINDING.columns
            if column.name != "file"
        ),
    ),
)
FOUND_RECORDS = RowType("found", "One row per match.", (_FILE, *_PLACE, *FOUND.leaves))
TABLES: dict[str, RowType] = {
    row_type.name: row_type
    for row_type in (SEGMENTS, BATCHES, RECORDS, SNAPSHOT_RECORDS, INDEX_ENTRIES, FINDINGS)
}


LAKE_TABLES = (RECORDS.name, BATCHES.name, SNAPSHOT_RECORDS.name)
"""The tables of an export."""


_WIDTHS = {"records": 11, "batches": 9, "bytes": 14}


def exported(tables: tuple[str, ...]) -> ResultType:
    """The counters per file of an export: bytes, and rows of each exported table."""
    shown = {name: width for name, width in _WIDTHS.items() if name in ("bytes", *tables)}
    more = (SNAPSHOT_RECORDS.name,) if RECORDS.name in tables else ()
    return ResultType(("bytes", *tables, *more), shown)


def has_records(table: str) -> bool:
    """Whether a table has a row per record."""
    return table in (RECORDS.name, SNAPSHOT_RECORDS.name)


def chosen(table: str, names: tuple[str, ...]) -> tuple[Column, ...]:
    """The named columns of a table, in that order, or all if none are named; raises KeyError."""
    rows = TABLES[table]
    return tuple(rows[name] for name in names) if names else rows.leaves
