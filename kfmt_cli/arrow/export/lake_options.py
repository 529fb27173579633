"""The options of an export, and the files that it writes: their names, sizes and spans of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from kfmt_cli.arrow.columns.record_schemas import KFMT_COLUMNS
from kfmt_cli.arrow.export.atomic_files import open_atomic
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT_KIND
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_grouping import FileGrouping
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.rows.table_types import (
    BATCHES_TABLE,
    RECORDS_TABLE,
    SEGMENTS_TABLE,
    SNAPSHOT_RECORDS_TABLE,
)

DEFAULT_TARGET_FILE_BYTES = 128 << 20
MAX_OPEN_FILES = 64  # per task


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """The options for writing rows to files."""

    tables: tuple[str, ...] = (RECORDS_TABLE.name,)
    format: str = "parquet"
    """A name in `file_formats.FILE_FORMATS`."""
    grouping: FileGrouping = field(default_factory=FileGrouping)
    schema: str = KFMT_COLUMNS
    """The columns of records: a name in `record_schemas.RECORD_SCHEMAS`."""
    target_file_bytes: int = DEFAULT_TARGET_FILE_BYTES

    @property
    def listing_table(self) -> str:
        """The table whose kinds of files are the inputs: KRaft snapshots only with records."""
        return SEGMENTS_TABLE.name if RECORDS_TABLE.name in self.tables else BATCHES_TABLE.name

    def tables_for(self, splits: Sequence[FileSplit]) -> tuple[str, ...]:
        """The tables with rows of splits, which are all of one kind."""
        is_snapshot = splits[0].kind is KRAFT_SNAPSHOT_KIND
        return (SNAPSHOT_RECORDS_TABLE.name,) if is_snapshot else self.tables

    def all_tables(self, splits: Iterable[FileSplit]) -> tuple[str, ...]:
        """The tables with rows of any splits."""
        has_snapshots = any(split.kind is KRAFT_SNAPSHOT_KIND for split in splits)
        return (*self.tables, SNAPSHOT_RECORDS_TABLE.name) if has_snapshots else self.tables


DEFAULT_LAKE_OPTIONS: dict[str, Any] = {
    "tables": RECORDS_TABLE.name,
    "columns": "",
    "partition_by": "none",
    "one_file_per_partition": False,
    "schema": KFMT_COLUMNS,
    "target_file_bytes": DEFAULT_TARGET_FILE_BYTES,
}


def parse_lake_options(options: Mapping[str, Any], format_: str) -> LakeOptions:
    """Parse the command-line options of an export; raises UsageError. format_: the file format."""
    partition_by, schema_name = options["partition_by"], options["schema"]
    is_text_compatible = partition_by in ("none", "topic") and schema_name == KFMT_COLUMNS
    if format_ != "parquet" and (not is_text_compatible or options["columns"]):
        option_names = "--columns, --schema and --partition-by topic,date"
        raise UsageError(f"{option_names} apply only to Parquet files")
    if schema_name != KFMT_COLUMNS and options["columns"]:
        raise UsageError("--columns and --schema cannot be given together")
    grouping = FileGrouping(
        partition_by != "none", partition_by == "topic,date", options["one_file_per_partition"]
    )
    tables = tuple(options["tables"].split(","))
    return LakeOptions(tables, format_, grouping, schema_name, options["target_file_bytes"])


@dataclass(slots=True)
class ExportedFile:
    """A finished file."""

    name: str
    """Relative to the export directory."""
    table: str
    rows: int = 0
    bytes: int = 0
    spans: list[list[int]] = field(default_factory=list)
    """For each range of the file, in order: the index of its split in the file group, -1 for a
    header; its length in the file format's unit, rows or bytes; its number of rows."""

    def add_span(self, split_index: int, length: int, n_rows: int) -> None:
        """Add a range of rows of one split at the end; see `spans`."""
        self.rows += n_rows
        if self.spans and self.spans[-1][0] == split_index:
            self.spans[-1][1] += length
            self.spans[-1][2] += n_rows
        elif length:
            self.spans.append([split_index, length, n_rows])


class TableFilesWriter:
    """Writes a table's files for a file group, one per directory at a time. A file appears when it
    is closed; after an error, open files are discarded."""

    def __init__(
        self, output_directory: str, table: str, options: LakeOptions, base_name: str, suffix: str
    ) -> None:
        self.table = table
        self.options = options
        self.finished_files: list[ExportedFile] = []
        self._output_directory = output_directory
        self._base_name = base_name
        self._suffix = suffix
        self._open_files: dict[str, _OpenExportFile] = {}
        self._n_files_by_directory: Counter[str] = Counter()

    def __enter__(self) -> TableFilesWriter:
        return self

    def __exit__(self, exception_type: type[BaseException] | None, *rest: object) -> None:
        for file in self._open_files.values():
            if exception_type is None:
                self.finished_files.append(file.close())
            else:
                file.abandon()
        self._open_files = {}

    def open_file(
        self, directory: str, create_writer: Callable[[BinaryIO], FileWriter]
    ) -> _OpenExportFile:
        """The file for a subdirectory of the table's directory: the open one, or a new one if that
        has reached the target size."""
        file = self._open_files.pop(directory, None)
        if file is not None and file.size >= self.options.target_file_bytes:
            self.finished_files.append(file.close())
            file = None
        if file is None:
            if len(self._open_files) >= MAX_OPEN_FILES:
                self.finished_files.append(
                    self._open_files.pop(next(iter(self._open_files))).close()
                )
            file_number = self._n_files_by_directory[directory]
            self._n_files_by_directory[directory] += 1
            number_suffix = f"-{file_number}" if file_number else ""
            name = f"{self.table}/{directory}{self._base_name}{number_suffix}.{self._suffix}"
            file = _OpenExportFile(
                ExportedFile(name, self.table), f"{self._output_directory}/{name}", create_writer
            )
        self._open_files[directory] = file  # most recently used last
        return file


class FileWriter(Protocol):
    """Writes rows to a file."""

    counts_bytes: bool
    """Whether spans of the file are measured in bytes instead of rows."""

    def write(self, rows: Any) -> None:
        """Write rows."""

    def close(self) -> None:
        """Write buffered rows and the footer."""

    def abandon(self) -> None:
        """Stop without completing the file."""


class _OpenExportFile:
    """A file being written."""

    def __init__(
        self, output: ExportedFile, path: str, create_writer: Callable[[BinaryIO], FileWriter]
    ) -> None:
        self._output = output
        self._atomic_file = open_atomic(path)
        self._out = self._atomic_file.__enter__()
        self._writer = create_writer(self._out)
        self._counts_bytes = self._writer.counts_bytes

    @property
    def size(self) -> int:
        return self._out.tell()

    def write(self, rows: Any, row_counts: Iterable[tuple[int, int]]) -> None:
        """Write rows. row_counts: the index of each split that they are from, and its number of
        rows; for a text file, one split."""
        start_byte = self._out.tell()
        if self._counts_bytes and not self._output.spans:
            self._output.add_span(-1, start_byte, 0)
        self._writer.write(rows)
        for split_index, n_rows in row_counts:
            length = self._out.tell() - start_byte if self._counts_bytes else n_rows
            self._output.add_span(split_index, length, n_rows)

    def close(self) -> ExportedFile:
        self._writer.close()
        self._output.bytes = self._out.tell()
        self._atomic_file.__exit__(None, None, None)
        return self._output

    def abandon(self) -> None:
        self._writer.abandon()
        self._atomic_file.__exit__(GeneratorExit, GeneratorExit(), None)  # so that no file appears
