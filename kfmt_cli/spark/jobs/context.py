"""What a job is given, what it gives back, and the tables that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kfmt_cli.arrow.checking import MOST_KEPT
from kfmt_cli.arrow.file_formats import FILE_FORMATS
from kfmt_cli.arrow.inputs import files_of
from kfmt_cli.arrow.output import appearing
from kfmt_cli.arrow.schema import schema_of
from kfmt_cli.findings.damage import FILE_UNREADABLE, FILE_VANISHED
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.table_types import TABLES
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class Context:
    """One run of a job."""

    spark: SparkSession
    request: Request
    to: str
    """The directory."""
    format: str
    advance: Callable[[int], None]
    options: dict[str, Any] = field(default_factory=dict)
    """The options of the job, by name."""
    files: list[Piece] | None = None
    """The inputs, where they have been listed already."""

    def table(self, name: str, columns: Sequence[str] = ()) -> DataFrame:
        """A table of the data source, as the request asks for it; raises UsageError."""
        from kfmt_cli.spark import register
        from kfmt_cli.spark.request import options_of

        register(self.spark)
        request = replace(self.request, table=name, columns=tuple(columns))
        reader = self.spark.read.format("kfmt").options(**options_of(request))
        return reader.load(list(request.paths))

    def inputs(self) -> list[Piece]:
        """The files that can be read, listed now where they have not been."""
        files = files_of(self.request) if self.files is None else self.files
        return [file for file in files if not file.trouble]


@dataclass(slots=True)
class JobSummary:
    """What a job did."""

    numbers: dict[str, int] = field(default_factory=dict)
    """Numbers for programs, in their order."""
    written: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Lines for people."""
    errors: int = 0
    vanished: int = 0
    unread: list[str] = field(default_factory=list)
    """The inputs that could not be read, each with the reason."""


def write_table(path: str, table: pa.Table, format_: str) -> str:
    """A small table as one file, whole; its path."""
    made = FILE_FORMATS[format_]
    place = f"{path}.{made.suffix}"
    with appearing(place) as out:
        made.write_table(out, table)
    return place


def table_of(name: str, rows: Iterable[dict[str, object]]) -> pa.Table:
    """Rows as one of the documented tables."""
    return pa.Table.from_pylist(list(rows), schema=schema_of(TABLES[name].leaves))


def left_out(codes: dict[str, int], rows: list[dict[str, object]]) -> list[str]:
    """A line that says how many findings are counted but not kept, where there are such."""
    n = sum(codes.values()) - len(rows)
    kept = f"{grouped(MOST_KEPT)} are kept of each part of a file"
    return [f"{grouped(n):>8}  of these are not in the table of findings: {kept}"] if n else []


def unread_of(rows: list[dict[str, object]]) -> list[str]:
    """The files that could not be opened, or not be read to their end, each with the reason."""
    codes = (FILE_VANISHED.name, FILE_UNREADABLE.name)
    return [str(row["message"]) for row in rows if row["code"] in codes]
