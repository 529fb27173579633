"""Files written by an export: their location and size; each appears only when complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from kfmt_cli.arrow.columns.record_schemas import KFMT
from kfmt_cli.arrow.export.output import appearing
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.errors import UsageError
from kfmt_cli.rows.table_types import BATCHES, RECORDS, SEGMENTS, SNAPSHOT_RECORDS
from kfmt_cli.sharing.bundles import Bundling
from kfmt_cli.sharing.piece import Piece

TARGET = 128 << 20  # bytes per file
MOST_DATES = 64  # open files per task


@dataclass(frozen=True, slots=True)
class Lake:
    """How rows are written to files."""

    tables: tuple[str, ...] = (RECORDS.name,)
    format: str = "parquet"
    """A format of `file_formats.FILE_FORMATS`."""
    bundling: Bundling = field(default_factory=Bundling)
    schema: str = KFMT
    """The columns of records: a name of `record_schemas.SCHEMAS`."""
    target: int = TARGET

    @property
    def listed_as(self) -> str:
        """The table whose files are the inputs: without records, KRaft snapshots are none."""
        return SEGMENTS.name if RECORDS.name in self.tables else BATCHES.name

    def tables_of(self, pieces: Sequence[Piece]) -> tuple[str, ...]:
        """The tables that pieces of one kind have rows in."""
        is_snapshot = pieces[0].kind is KRAFT_SNAPSHOT
        return (SNAPSHOT_RECORDS.name,) if is_snapshot else self.tables

    def all_tables(self, pieces: Iterable[Piece]) -> tuple[str, ...]:
        """The tables of an export of pieces."""
        has_snapshots = any(piece.kind is KRAFT_SNAPSHOT for piece in pieces)
        return (*self.tables, SNAPSHOT_RECORDS.name) if has_snapshots else self.tables


DEFAULTS: dict[str, Any] = {
    "tables": RECORDS.name,
    "columns": "",
    "partition_by": "none",
    "one_file_per_partition": False,
    "schema": KFMT,
    "target_file_bytes": TARGET,
}


def lake_of(options: Mapping[str, Any], format_: str) -> Lake:
    """The Lake for the options of an export; raises UsageError."""
    by, schema = options["partition_by"], options["schema"]
    is_plain = by in ("none", "topic") and schema == KFMT
    if format_ != "parquet" and (not is_plain or options["columns"]):
        words = "--columns, --schema and --partition-by topic,date"
        raise UsageError(f"{words} apply only to Parquet files")
    if schema != KFMT and options["columns"]:
        raise UsageError("--columns and --schema cannot be given together")
    bundling = Bundling(by != "none", by == "topic,date", options["one_file_per_partition"])
    tables = tuple(options["tables"].split(","))
    return Lake(tables, format_, bundling, schema, options["target_file_bytes"])


@dataclass(slots=True)
class Output:
    """A finished file."""

    name: str
    """Relative to the export directory."""
    table: str
    rows: int = 0
    bytes: int = 0
    spans: list[list[int]] = field(default_factory=list)
    """For each stretch of the file: the number of its piece in the bundle, -1 for a head; its
    length in the file format's unit, rows or bytes; and its rows."""

    def add_span(self, piece: int, length: int, rows: int) -> None:
        """Add a stretch at the end."""
        self.rows += rows
        if self.spans and self.spans[-1][0] == piece:
            self.spans[-1][1] += length
            self.spans[-1][2] += rows
        elif length:
            self.spans.append([piece, length, rows])


class Files:
    """The files of a table being written for a bundle, one per directory at a time. A file appears
    when it is closed; after an error, none does."""

    def __init__(self, to: str, table: str, lake: Lake, stem: str, suffix: str) -> None:
        self.table = table
        self.lake = lake
        self.done: list[Output] = []
        self._to = to
        self._stem = stem
        self._suffix = suffix
        self._open: dict[str, _OpenFile] = {}
        self._numbers: Counter[str] = Counter()

    def __enter__(self) -> Files:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        for file in self._open.values():
            if kind is None:
                self.done.append(file.close())
            else:
                file.abandon()
        self._open = {}

    def writer(self, folder: str, made: Callable[[BinaryIO], FileWriter]) -> _OpenFile:
        """The file for a directory under the table's: the open one, or a new one if it is large
        enough."""
        file = self._open.pop(folder, None)
        if file is not None and file.size >= self.lake.target:
            self.done.append(file.close())
            file = None
        if file is None:
            if len(self._open) >= MOST_DATES:
                self.done.append(self._open.pop(next(iter(self._open))).close())
            number = self._numbers[folder]
            self._numbers[folder] += 1
            more = f"-{number}" if number else ""
            name = f"{self.table}/{folder}{self._stem}{more}.{self._suffix}"
            file = _OpenFile(Output(name, self.table), f"{self._to}/{name}", made)
        self._open[folder] = file  # most recently used last
        return file


class FileWriter(Protocol):
    """Writes rows to a file."""

    counts_bytes: bool
    """Whether stretches of the file are found by their bytes, not by their rows."""

    def write(self, rows: Any) -> None:
        """Write rows."""

    def close(self) -> None:
        """Write the footer."""

    def abandon(self) -> None:
        """Stop writing."""


class _OpenFile:
    """A file being written."""

    def __init__(self, output: Output, path: str, made: Callable[[BinaryIO], FileWriter]) -> None:
        self._output = output
        self._appearing = appearing(path)
        self._out = self._appearing.__enter__()
        self._writer = made(self._out)
        self._counts_bytes = self._writer.counts_bytes

    @property
    def size(self) -> int:
        return self._out.tell()

    def write(self, rows: Any, owners: Iterable[tuple[int, int]]) -> None:
        """Write rows. owners: the numbers of the pieces they are from, and of the rows of each;
        for a text file, of one piece."""
        before = self._out.tell()
        if self._counts_bytes and not self._output.spans:
            self._output.add_span(-1, before, 0)
        self._writer.write(rows)
        for piece, n_rows in owners:
            length = self._out.tell() - before if self._counts_bytes else n_rows
            self._output.add_span(piece, length, n_rows)

    def close(self) -> Output:
        self._writer.close()
        self._output.bytes = self._out.tell()
        self._appearing.__exit__(None, None, None)
        return self._output

    def abandon(self) -> None:
        self._writer.abandon()
        self._appearing.__exit__(GeneratorExit, GeneratorExit(), None)  # so that none appears
