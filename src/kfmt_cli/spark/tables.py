"""The tables that segments are read as: names, types and words, once for Spark, Arrow and the docs.

All columns are nullable, timestamps are microseconds in UTC. Null is: the format has no such field,
or the file says there is none (a timestamp or producer id of -1).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kfmt_cli.render.shown import BATCH, Kind, Shown

if TYPE_CHECKING:
    import pyarrow as pa


class Type(enum.Enum):
    """A column's type; the value is Spark's name for it."""

    LONG = "bigint"
    INT = "int"
    TEXT = "string"
    TEXTS = "array<string>"
    BYTES = "binary"
    TIME = "timestamp"
    FLAG = "boolean"
    HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: Type
    doc: str


_FILE = Column("file", Type.TEXT, "The file's path.")
_PLACE = (
    Column("topic", Type.TEXT, "By the name of the directory."),
    Column("partition", Type.INT, "By the name of the directory."),
)
_TIMES = ("base_timestamp", "max_timestamp", "delete_horizon_ms")


def _batch_columns() -> list[Column]:
    """The names of the JSON contract, the attributes opened up."""
    found: list[Column] = []
    for it in BATCH:
        members = it.of if it.kind is Kind.GROUP else (it,)
        for member in members:
            name = "attributes" if member.name == "raw" else member.name
            found.append(Column(name, _type_of(member), "As in `kfmt dump --format json`."))
    return found


def _type_of(shown: Shown) -> Type:
    if shown.kind is Kind.YES_NO:
        return Type.FLAG
    if shown.kind is Kind.CHOICE:
        return Type.TEXT
    return Type.TIME if shown.name in _TIMES else Type.LONG


TABLES: dict[str, tuple[Column, ...]] = {
    "segments": (
        _FILE,
        *_PLACE,
        Column("base_offset", Type.LONG, "By the file's name."),
        Column("bytes", Type.LONG, "Size of the file."),
        Column("batches", Type.LONG, "Batches that are readable."),
        Column("records", Type.LONG, "Records that their headers declare; messages of magic 0, 1."),
        Column("first_offset", Type.LONG, "Of the first batch."),
        Column("last_offset", Type.LONG, "Of the last batch."),
        Column("min_timestamp", Type.TIME, "The least max timestamp of a batch."),
        Column("max_timestamp", Type.TIME, "The largest max timestamp of a batch."),
        Column("magics", Type.TEXTS, "Formats that occur."),
        Column("codecs", Type.TEXTS, "Codecs that occur."),
        Column("errors", Type.LONG, "Findings of severity error."),
        Column("warnings", Type.LONG, "Findings of severity warning."),
        Column("notes", Type.LONG, "Findings of severity note."),
    ),
    "batches": (_FILE, *_PLACE, *_batch_columns()),
    "records": (
        *_PLACE,
        Column("offset", Type.LONG, "Offset."),
        Column("timestamp", Type.TIME, "Timestamp."),
        Column("timestamp_type", Type.TEXT, "CreateTime, LogAppendTime or NoTimestampType."),
        Column("key", Type.BYTES, "Key."),
        Column("value", Type.BYTES, "Value; null is a tombstone."),
        Column("headers", Type.HEADERS, "In the producer's order; null in magic 0 and 1."),
        Column("producer_id", Type.LONG, "Producer."),
        Column("producer_epoch", Type.INT, "Its epoch."),
        Column("sequence", Type.INT, "The producer's number of the record."),
        Column("transactional", Type.FLAG, "Whether it belongs to a transaction."),
        Column("control", Type.FLAG, "Whether it is a control record, which no consumer is given."),
        _FILE,
        Column("position", Type.LONG, "Byte in the file; null inside a compressed batch."),
        Column("batch_position", Type.LONG, "Byte in the file where its batch begins."),
    ),
    "index_entries": (
        _FILE,
        *_PLACE,
        Column("kind", Type.TEXT, "offset_index or time_index."),
        Column("position", Type.LONG, "Byte in the index."),
        Column("timestamp", Type.TIME, "Of an entry of a time index."),
        Column("relative_offset", Type.LONG, "Offset, counted from the base offset."),
        Column("offset", Type.LONG, "Offset."),
        Column("log_position", Type.LONG, "Byte in the log, of an entry of an offset index."),
    ),
    "findings": (
        _FILE,
        *_PLACE,
        Column("code", Type.TEXT, "Kind of finding, see findings.md."),
        Column("severity", Type.TEXT, "error, warning or note."),
        Column("position", Type.LONG, "Byte in the file."),
        Column("offset", Type.LONG, "The offset that it concerns."),
        Column("message", Type.TEXT, "What was found, in words."),
        Column("expected", Type.TEXT, "What should be there."),
        Column("found", Type.TEXT, "What is there."),
        Column("after_crash", Type.TEXT, "What a broker does that recovers the log."),
        Column("after_clean_shutdown", Type.TEXT, "What one does after a clean shutdown."),
        Column("advice", Type.TEXT, "What to do."),
    ),
}


def chosen(table: str, names: tuple[str, ...]) -> tuple[Column, ...]:
    """The columns of a table, those named only, in their order; raises KeyError."""
    columns = {column.name: column for column in TABLES[table]}
    return tuple(columns[name] for name in names) if names else TABLES[table]


def ddl(columns: tuple[Column, ...]) -> str:
    """The schema in Spark's words."""
    return ", ".join(f"`{column.name}` {column.type.value}" for column in columns)


@cache
def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The same as an Arrow schema, which must match Spark's to the name of each list's items."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        Type.LONG: pa.int64(),
        Type.INT: pa.int32(),
        Type.TEXT: pa.string(),
        Type.TEXTS: pa.list_(pa.field("element", pa.string())),
        Type.BYTES: pa.binary(),
        Type.TIME: pa.timestamp("us", "UTC"),
        Type.FLAG: pa.bool_(),
        Type.HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in columns])
