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

    table_names: tuple[str, ...] = (RECORDS_TABLE.name,)
    format_name: str = "parquet"
    """A name in `file_formats.FILE_FORMATS`."""
    file_grouping: FileGrouping = field(default_factory=FileGrouping)
    schema_name: str = KFMT_COLUMNS
    """The columns of records: a name in `record_schemas.RECORD_SCHEMAS`."""
    target_file_bytes: int = DEFAULT_TARGET_FILE_BYTES

    @property
    def listing_table(self) -> str:
        """The table that decides which kinds of files are inputs; KRaft snapshots are inputs only
        for records."""
        return SEGMENTS_TABLE.name if RECORDS_TABLE.name in self.table_names else BATCHES_TABLE.name

    def tables_of_group(self, splits: Sequence[FileSplit]) -> tuple[str, ...]:
        """The tables that get rows from these splits, which are all of one kind of file."""
        is_snapshot = splits[0].kind is KRAFT_SNAPSHOT_KIND
        return (SNAPSHOT_RECORDS_TABLE.name,) if is_snapshot else self.table_names

    def all_tables(self, splits: Iterable[FileSplit]) -> tuple[str, ...]:
        """The tables that get rows from any of these splits."""
        has_snapshots = any(split.kind is KRAFT_SNAPSHOT_KIND for split in splits)
        return (
            (*self.table_names, SNAPSHOT_RECORDS_TABLE.name) if has_snapshots else self.table_names
        )


DEFAULT_LAKE_OPTIONS: dict[str, Any] = {
    "tables": RECORDS_TABLE.name,
    "columns": "",
    "partition_by": "none",
    "one_file_per_partition": False,
    "schema": KFMT_COLUMNS,
    "target_file_bytes": DEFAULT_TARGET_FILE_BYTES,
}


def parse_lake_options(options: Mapping[str, Any], format_name: str) -> LakeOptions:
    """Parse the command-line options of an export; raises UsageError. format_name: the file
    format."""
    partition_by, schema_name = options["partition_by"], options["schema"]
    is_text_compatible = partition_by in ("none", "topic") and schema_name == KFMT_COLUMNS
    if format_name != "parquet" and (not is_text_compatible or options["columns"]):
        option_names = "--columns, --schema and --partition-by topic,date"
        raise UsageError(f"{option_names} apply only to Parquet files")
    if schema_name != KFMT_COLUMNS and options["columns"]:
        raise UsageError("--columns and --schema cannot be given together")
    file_grouping = FileGrouping(
        partition_by != "none", partition_by == "topic,date", options["one_file_per_partition"]
    )
    table_names = tuple(options["tables"].split(","))
    return LakeOptions(
        table_names, format_name, file_grouping, schema_name, options["target_file_bytes"]
    )


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

    def add_span(self, split_index: int, span_length: int, n_rows: int) -> None:
        """Add a range of rows of one split at the end; see `spans`."""
        self.rows += n_rows
        if self.spans and self.spans[-1][0] == split_index:
            self.spans[-1][1] += span_length
            self.spans[-1][2] += n_rows
        elif span_length:
            self.spans.append([split_index, span_length, n_rows])


class TableFilesWriter:
    """Writes a table's files for a file group, one per directory at a time. A file appears when it
    is closed; after an error, open files are discarded."""

    def __init__(
        self,
        output_directory: str,
        table_name: str,
        lake_options: LakeOptions,
        base_name: str,
        file_suffix: str,
    ) -> None:
        self.table_name = table_name
        self.lake_options = lake_options
        self.finished_files: list[ExportedFile] = []
        self._output_directory = output_directory
        self._base_name = base_name
        self._file_suffix = file_suffix
        self._open_file_by_directory: dict[str, _OpenExportFile] = {}
        self._n_files_by_directory: Counter[str] = Counter()

    def __enter__(self) -> TableFilesWriter:
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, *exception_details: object
    ) -> None:
        for export_file in self._open_file_by_directory.values():
            if exception_type is None:
                self.finished_files.append(export_file.close())
            else:
                export_file.abandon()
        self._open_file_by_directory = {}

    def open_file(
        self, subdirectory: str, create_writer: Callable[[BinaryIO], FileWriter]
    ) -> _OpenExportFile:
        """The file for a subdirectory of the table's directory: the open one, or a new one if that
        has reached the target size."""
        export_file = self._open_file_by_directory.pop(subdirectory, None)
        if (
            export_file is not None
            and export_file.written_bytes >= self.lake_options.target_file_bytes
        ):
            self.finished_files.append(export_file.close())
            export_file = None
        if export_file is None:
            if len(self._open_file_by_directory) >= MAX_OPEN_FILES:
                self.finished_files.append(
                    self._open_file_by_directory.pop(
                        next(iter(self._open_file_by_directory))
                    ).close()
                )
            file_number = self._n_files_by_directory[subdirectory]
            self._n_files_by_directory[subdirectory] += 1
            number_suffix = f"-{file_number}" if file_number else ""
            base_name = f"{self._base_name}{number_suffix}.{self._file_suffix}"
            file_name = f"{self.table_name}/{subdirectory}{base_name}"
            export_file = _OpenExportFile(
                ExportedFile(file_name, self.table_name),
                f"{self._output_directory}/{file_name}",
                create_writer,
            )
        self._open_file_by_directory[subdirectory] = export_file  # most recently used last
        return export_file


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
        self,
        exported_file: ExportedFile,
        path: str,
        create_writer: Callable[[BinaryIO], FileWriter],
    ) -> None:
        self._exported_file = exported_file
        self._atomic_file = open_atomic(path)
        self._output_stream = self._atomic_file.__enter__()
        self._file_writer = create_writer(self._output_stream)
        self._counts_bytes = self._file_writer.counts_bytes

    @property
    def written_bytes(self) -> int:
        return self._output_stream.tell()

    def write_rows(self, rows: Any, row_counts: Iterable[tuple[int, int]]) -> None:
        """Write rows. row_counts: the index of each split that they are from, and its number of
        rows; for a text file, one split."""
        start_position = self._output_stream.tell()
        if self._counts_bytes and not self._exported_file.spans:
            self._exported_file.add_span(-1, start_position, 0)
        self._file_writer.write(rows)
        for split_index, n_rows in row_counts:
            span_length = (
                self._output_stream.tell() - start_position if self._counts_bytes else n_rows
            )
            self._exported_file.add_span(split_index, span_length, n_rows)

    def close(self) -> ExportedFile:
        self._file_writer.close()
        self._exported_file.bytes = self._output_stream.tell()
        self._atomic_file.__exit__(None, None, None)
        return self._exported_file

    def abandon(self) -> None:
        self._file_writer.abandon()
        self._atomic_file.__exit__(GeneratorExit, GeneratorExit(), None)  # so that no file appears
