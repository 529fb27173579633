"""The tables that segments are read as, on Spark and in Parquet files.

All columns are nullable; timestamps are in microseconds, UTC. Null means that the format has no
such field, or that the file has no value (a timestamp or producer id of -1).
"""

from __future__ import annotations

from dataclasses import replace

from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.rows.column import (
    Column,
    ColumnKind,
    RowType,
    field_column,
    milliseconds_column,
    number_column,
)
from kfmt_cli.rows.documents import FINDING_ROW, MATCH_ROW, SEVERITY_COUNT_COLUMNS
from kfmt_cli.rows.file_result import FileResultType
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import DECODED_RECORD_ROW

# Prefix of the source of a record column that comes from the record's batch.
BATCH_PREFIX = "batch."

_FILE_COLUMN = Column("file", ColumnKind.TEXT, "The file's path.")
_LOCATION_COLUMNS = (
    Column("topic", ColumnKind.TEXT, "From the directory name."),
    Column("partition", doc="From the directory name.", n_bits=32),
)
_TOPIC_ID_COLUMN = Column(
    "topic_id", ColumnKind.TEXT, "From partition.metadata, or from a tiered segment's manifest."
)
_TIMESTAMP_MS_COLUMN = Column(
    "timestamp_ms",
    doc="The timestamp in milliseconds, also where `timestamp` cannot hold it.",
    source="timestamp",
    presence_column="has_timestamp",
    null_value=-1,
)
_RECORD_COLUMN_NAMES = ("offset", "timestamp", "timestamp_type", "key", "value")
_BATCH_COLUMN_NAMES = ("producer_id", "producer_epoch")


def _batch_column(name: str) -> Column:
    """A column of the batch, repeated for each of its records."""
    column = BATCH_ROW[name]
    presence_column = f"{BATCH_PREFIX}{column.presence_column}" if column.presence_column else ""
    n_bits = 64 if column.n_bits == 64 else 32
    return replace(
        column,
        source=f"{BATCH_PREFIX}{column.table_column}",
        presence_column=presence_column,
        n_bits=n_bits,
    )


_LEADER_EPOCH_COLUMN = replace(
    _batch_column("partition_leader_epoch"),
    name="leader_epoch",
    doc="The epoch of the leader that appended the batch; null in magic 0 and 1. With topic id, "
    "partition and offset, it identifies the record.",
    null_value=-1,
)


def _decoded_column(name: str) -> Column:
    """A column of text from a topic's decoder, null in records without it."""
    return replace(DECODED_RECORD_ROW[name], present_if=None, presence_column=f"has_{name}")


_HEADERS_COLUMN = replace(
    DECODED_RECORD_ROW["headers"],
    doc=f"{DECODED_RECORD_ROW['headers'].doc} `key_bytes` is null unless a key is not UTF-8.",
)
RECORDS_TABLE = RowType(
    "records",
    "One row per record.",
    (
        *_LOCATION_COLUMNS,
        *(DECODED_RECORD_ROW[name] for name in _RECORD_COLUMN_NAMES),
        _HEADERS_COLUMN,
        *map(_batch_column, _BATCH_COLUMN_NAMES),
        DECODED_RECORD_ROW["sequence"],
        *map(_batch_column, ("transactional", "control")),
        _FILE_COLUMN,
        DECODED_RECORD_ROW["position"],
        DECODED_RECORD_ROW["batch_position"],
        *map(_decoded_column, ("decoded_key", "decoded_value")),
        _TOPIC_ID_COLUMN,
        _TIMESTAMP_MS_COLUMN,
        _LEADER_EPOCH_COLUMN,
    ),
)
SNAPSHOT_RECORDS_TABLE = replace(
    RECORDS_TABLE,
    name="snapshot_records",
    doc="One row per record of a KRaft snapshot. The metadata log has them at other offsets.",
)
BATCHES_TABLE = RowType(
    "batches",
    "One row per batch.",
    (
        _FILE_COLUMN,
        *_LOCATION_COLUMNS,
        *(replace(leaf, n_bits=64) for leaf in BATCH_ROW.leaves),
        _TOPIC_ID_COLUMN,
    ),
)
SEGMENTS_TABLE = RowType(
    "segments",
    "One row per file.",
    (
        _FILE_COLUMN,
        *_LOCATION_COLUMNS,
        number_column("base_offset", "From the file name."),
        number_column("bytes", "Size of the file."),
        number_column("batches", "Readable batches."),
        number_column("records", "Records declared in batch headers; messages for magic 0 and 1."),
        number_column("first_offset", "First offset."),
        number_column("last_offset", "Last offset."),
        milliseconds_column("min_timestamp", "Smallest max timestamp of any batch."),
        milliseconds_column("max_timestamp", "Largest max timestamp of any batch."),
        Column("magics", ColumnKind.TEXTS, "Message formats found."),
        Column("codecs", ColumnKind.TEXTS, "Codecs found."),
        *SEVERITY_COUNT_COLUMNS,
    ),
)
INDEX_ENTRIES_TABLE = RowType(
    "index_entries",
    "One row per offset index or time index entry.",
    (
        _FILE_COLUMN,
        *_LOCATION_COLUMNS,
        Column("kind", ColumnKind.TEXT, "offset_index or time_index."),
        number_column("position", "Byte in the index."),
        field_column(
            TIME_INDEX_ENTRY.field("timestamp"),
            null_value=-1,
            doc="Timestamp of a time index entry.",
        ),
        field_column(OFFSET_INDEX_ENTRY.field("relative_offset"), n_bits=64),
        number_column("offset", "Offset."),
        field_column(OFFSET_INDEX_ENTRY.field("log_position"), n_bits=64),
    ),
)
FINDINGS_TABLE = RowType(
    "findings",
    "One row per finding.",
    (
        _FILE_COLUMN,
        *_LOCATION_COLUMNS,
        *(
            Column(
                column.name,
                ColumnKind.NUMBER if column.kind is ColumnKind.NUMBER else ColumnKind.TEXT,
                column.doc,
            )
            for column in FINDING_ROW.columns
            if column.name != "file"
        ),
    ),
)
FOUND_RECORDS_TABLE = RowType(
    "found", "One row per match.", (_FILE_COLUMN, *_LOCATION_COLUMNS, *MATCH_ROW.leaves)
)
TABLES: dict[str, RowType] = {
    row_type.name: row_type
    for row_type in (
        SEGMENTS_TABLE,
        BATCHES_TABLE,
        RECORDS_TABLE,
        SNAPSHOT_RECORDS_TABLE,
        INDEX_ENTRIES_TABLE,
        FINDINGS_TABLE,
    )
}


ADDED_COLUMNS = frozenset({_LEADER_EPOCH_COLUMN.name})
"""The columns of records that tables of earlier versions of `pipeline export` do not have."""
LAKE_TABLES = (RECORDS_TABLE.name, BATCHES_TABLE.name, SNAPSHOT_RECORDS_TABLE.name)
"""The tables of an export."""


_COLUMN_WIDTHS = {"records": 11, "batches": 9, "bytes": 14}


def export_result_type(table_names: tuple[str, ...]) -> FileResultType:
    """The counters per file of an export: bytes, and rows of each exported table."""
    column_widths = {
        name: width for name, width in _COLUMN_WIDTHS.items() if name in ("bytes", *table_names)
    }
    extra_table_names = (SNAPSHOT_RECORDS_TABLE.name,) if RECORDS_TABLE.name in table_names else ()
    return FileResultType(("bytes", *table_names, *extra_table_names), column_widths)


_REPLICA_COLUMNS = (
    Column("log_dir", ColumnKind.TEXT, "The log directory; only with all replicas."),
    Column(
        "broker_id",
        doc="From meta.properties of the log directory; only with all replicas.",
        n_bits=32,
    ),
)
_REPLICA_COLUMN_BY_NAME = {column.name: column for column in _REPLICA_COLUMNS}


def find_column(table_name: str, column_name: str) -> Column | None:
    """A column of a table, or one that tells the replicas of a record apart; None for another
    name."""
    return TABLES[table_name].leaf_by_name.get(column_name) or (
        _REPLICA_COLUMN_BY_NAME.get(column_name) if has_records(table_name) else None
    )


def with_replica_columns(table_name: str) -> tuple[str, ...]:
    """The names of the columns of a table of records that has the records of all replicas."""
    return tuple(column.name for column in (*TABLES[table_name].leaves, *_REPLICA_COLUMNS))


def has_records(table_name: str) -> bool:
    """Whether a table has a row per record."""
    return table_name in (RECORDS_TABLE.name, SNAPSHOT_RECORDS_TABLE.name)


def select_columns(table_name: str, column_names: tuple[str, ...]) -> tuple[Column, ...]:
    """The named columns of a table, in that order, or all if none are named; raises KeyError."""
    if not column_names:
        return TABLES[table_name].leaves
    columns = {name: find_column(table_name, name) for name in column_names}
    for name, column in columns.items():
        if column is None:
            raise KeyError(name)
    return tuple(column for column in columns.values() if column is not None)
