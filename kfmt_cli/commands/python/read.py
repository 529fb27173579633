"""Python functions that read: rows as Arrow, NumPy columns or plain objects, with findings.

The reading part of kfmt_cli's Python API (docs/python.md). It finds files as the commands do.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.payload_formats import payload_declarations
from kfmt_cli.commands.python.bounds import accept_former_bounds, parse_bounds
from kfmt_cli.commands.python.command_result import null_run
from kfmt_cli.commands.verify_crc.command import VerifyCrcCommand
from kfmt_cli.commands.verify_crc.options import VerifyCrcOptions
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.credentials import strip_credentials
from kfmt_cli.core.parallel import available_cores, map_ordered
from kfmt_cli.core.urls import format_display_name, is_local, normalize_path, strip_file_scheme
from kfmt_cli.disk.directory_listing import distinct_files, file_topic
from kfmt_cli.disk.file_access import is_directory, path_exists
from kfmt_cli.disk.file_names import file_topic_partition
from kfmt_cli.disk.input_paths import InputPath, drop_duplicate_segments, resolve_path
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.disk.partition_path import with_location
from kfmt_cli.disk.path_resolution import mount_and_resolve_path, resolve_input_file
from kfmt_cli.errors import InputError, InputErrorHandler, UsageError, unknown_name_error
from kfmt_cli.findings.finding import Finding, sort_findings
from kfmt_cli.log.decompression import needs_separate_decoding
from kfmt_cli.log.rows_reader import LogRowsReader
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.options.declaration import deprecation_message
from kfmt_cli.options.payload_options import PayloadOptions
from kfmt_cli.rows.columnar_rows import (
    ColumnarRows,
    JsonObject,
    NestedRows,
    iter_json_objects,
    numpy_columns,
)
from kfmt_cli.rows.table_types import BATCHES_TABLE, RECORDS_TABLE, select_columns
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import DECODED_RECORD_ROW, RECORD_ROW
from kfmt_cli.topics import find_decoder
from kfmt_cli.topics.payloads import NO_DECLARATIONS, PayloadDeclarations

if TYPE_CHECKING:
    import pyarrow as pa

Path = str | bytes | os.PathLike[str]
Paths = Path | Sequence[Path]
Columns = dict[str, np.ndarray[Any, Any]]


def resolve_paths(path: Path | Sequence[Path]) -> tuple[str, ...]:
    """One or several paths as normalized text, without credentials. Discards cached mounts, as the
    files may have changed since the last call. Raises InputError, also for a missing path."""
    normalized_paths = [
        normalize_path(strip_credentials(os.fsdecode(path_))) for path_ in as_sequence(path)
    ]
    for normalized_path in normalized_paths:
        MOUNTS.forget_trees(normalized_path)
    return tuple(require_existing_path(mount_and_resolve_path(name)) for name in normalized_paths)


def as_sequence(path: Path | Sequence[Path]) -> Sequence[Path]:
    """One or several paths, as a sequence."""
    return [path] if isinstance(path, str | bytes | os.PathLike) else path


def as_tuple(text_or_texts: str | Iterable[str]) -> tuple[str, ...]:
    """One or several strings, as a tuple."""
    return (text_or_texts,) if isinstance(text_or_texts, str) else tuple(text_or_texts)


def require_existing_path(path: str) -> str:
    """The path itself; raises InputError if it is local and does not exist."""
    if is_local(path) and not path_exists(strip_file_scheme(path)):
        message = f"{format_display_name(path)}: No such file or directory"
        raise InputError(message, file=format_display_name(path), is_missing=True)
    return path


@dataclass(slots=True, repr=False)
class LogRowReader:
    """The batches or records of some logs, read on demand.

    Iterating yields Arrow record batches if pyarrow is installed, otherwise columns.
    """

    _paths: tuple[str, ...]
    _rows_reader: LogRowsReader
    _columns: tuple[str, ...]
    _explicit_topic: str | None
    _n_threads: int
    _payload_declarations: PayloadDeclarations = NO_DECLARATIONS
    findings: list[Finding] = field(default_factory=list)
    """Findings so far, of the last pass; damage never raises."""
    unread: list[str] = field(default_factory=list)
    """Messages about unreadable inputs."""

    def __repr__(self) -> str:
        return f"<LogRows: {self._table_name} of {', '.join(self._paths)}>"

    def __iter__(self) -> Iterator[Any]:
        try:
            import pyarrow as pa  # noqa: F401
        except ImportError:
            return self.columns()
        return self.arrow()

    def within(self, bounds: Selection) -> LogRowReader:
        """The same rows, restricted to further bounds."""
        rows_reader = replace(
            self._rows_reader, selection=self._rows_reader.selection.intersect(bounds)
        )
        return LogRowReader(
            self._paths,
            rows_reader,
            self._columns,
            self._explicit_topic,
            self._n_threads,
            self._payload_declarations,
        )

    @property
    def _table_name(self) -> str:
        return (RECORDS_TABLE if self._rows_reader.reads_records else BATCHES_TABLE).name

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; needs pyarrow."""
        from kfmt_cli.arrow.columns.schema import arrow_schema

        return arrow_schema(select_columns(self._table_name, self._columns))

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; needs pyarrow."""
        from kfmt_cli.arrow.columns.arrow_batches import arrow_batch, arrow_rows, split_arrow_rows
        from kfmt_cli.arrow.columns.tables import file_column_factory
        from kfmt_cli.arrow.topic_ids import TopicIdCache

        columns, topic_id_cache = select_columns(self._table_name, self._columns), TopicIdCache()

        def find_topic_id_in(directory: str) -> str | None:
            with self._catch_unread():
                return topic_id_cache[directory]
            return topic_id_cache.setdefault(directory, None)

        for file, rows in self._iter_rows():
            find_topic_id = partial(find_topic_id_in, file.path.rpartition("/")[0] or ".")
            shared_columns = file_column_factory(
                file.path, file.kind.name, file_topic_partition(file.path), find_topic_id
            )
            for batch_rows in split_arrow_rows(arrow_rows(rows)):
                yield arrow_batch(batch_rows, columns, shared_columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream for pandas, Polars and DuckDB; needs pyarrow."""
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.arrow())
        return reader.__arrow_c_stream__(requested_schema)

    def columns(self) -> Iterator[Columns]:
        """NumPy columns by name, masked for missing values; raises UsageError for a column that
        only Arrow has."""
        row_types = (
            (RECORD_ROW, DECODED_RECORD_ROW) if self._rows_reader.reads_records else (BATCH_ROW,)
        )
        column_names = {leaf.name: None for type_ in row_types for leaf in type_.leaves}
        for column_name in self._columns:
            if column_name not in column_names:
                raise unknown_name_error("NumPy column", column_name, column_names)
        for _, rows in self._iter_rows():
            yield numpy_columns(_innermost_rows(rows), self._columns)

    def objects(self) -> Iterator[JsonObject]:
        """Plain objects, as in `kfmt dump --format json`, with raw bytes; always complete,
        whichever columns were chosen."""
        for file, rows in self._iter_rows():
            columnar_rows = _innermost_rows(rows)
            common_members = {
                "type": columnar_rows.type.name,
                **with_location({"file": file.name}, columnar_rows.type.location_source),
            }
            for row in iter_json_objects(columnar_rows, "bytes"):
                yield {**common_members, **row}

    def _iter_rows(self) -> Iterator[tuple[InputFile, NestedRows]]:
        """The rows of each log; raises InputError if none of them could be read."""
        self.findings.clear()
        self.unread.clear()
        n_read_logs = 0
        for file in _iter_logs(self._paths, self._add_unread_message):
            with self._catch_unread():
                yield from ((file, rows) for rows in self._iter_log_rows(file))
                n_read_logs += 1
        if self.unread and not n_read_logs:
            raise InputError(self.unread[0])

    def _catch_unread(self) -> InputErrorHandler:
        return InputErrorHandler(lambda error: self._add_unread_message(str(error)))

    def _add_unread_message(self, message: str) -> None:
        """Add a message unless it was added before."""
        if message not in self.unread:
            self.unread.append(message)

    def _iter_log_rows(self, file: InputFile) -> Iterator[NestedRows]:
        topic = self._explicit_topic or file_topic(file)
        decoder = None
        if self._rows_reader.reads_records:
            decoder = find_decoder(topic) or self._payload_declarations.decoder
        rows_reader = replace(self._rows_reader, decoder=decoder)
        with open_checked_log(file, read_ahead=False) as opened_log:
            n_workers = self._n_threads if opened_log.is_large and rows_reader.reads_records else 0
            blocks = rows_reader.iter_prepared_blocks(opened_log.blocks)
            for decoded_parts in map_ordered(
                rows_reader.read_rows, blocks, n_workers, needs_separate_decoding
            ):
                for decoded_part in decoded_parts:
                    self.findings += sort_findings(decoded_part.findings)
                    if len(decoded_part.rows):
                        yield decoded_part.rows


def _innermost_rows(rows: NestedRows) -> ColumnarRows:
    """The inner rows, or the outer ones if there are none."""
    return rows.outer if rows.inner is None else rows.inner


def _iter_logs(paths: tuple[str, ...], on_unlisted: Callable[[str], None]) -> Iterator[InputFile]:
    """The distinct logs under some paths; a KRaft snapshot only if it is one of the paths. Raises
    InputError for an unusable path. on_unlisted: called with the message for each directory that
    cannot be listed."""
    visited_paths: set[str] = set()
    for input_path in drop_duplicate_segments(map(_resolve_input_path, paths)):
        for message in input_path.listing_errors:
            on_unlisted(message)
        yield from distinct_files(
            input_path.exclude_marked_directories(lambda _: None).iter_files(frozenset({LOG_KIND})),
            visited_paths,
        )


def _resolve_input_path(path: str) -> InputPath:
    try:
        return resolve_path(path)
    except UsageError as error:
        raise InputError(str(error), file=path) from error


def log_rows(
    path: Path | Sequence[Path],
    reads_records: bool,
    columns: Iterable[str] | None,
    selection: Selection,
    topic: str | None = None,
    jobs: int | None = None,
    max_decompressed: int | None = None,
    payload_options: PayloadOptions | None = None,
) -> LogRowReader:
    """The rows of logs; raises UsageError for an unknown column or format, InputError for a missing
    path."""
    table = RECORDS_TABLE if reads_records else BATCHES_TABLE
    column_names = as_tuple(columns or ())
    for column_name in column_names:
        if column_name not in table.leaf_by_name:
            raise unknown_name_error("column", column_name, table.leaf_by_name)
    rows_reader = LogRowsReader(
        reads_records, selection, DecompressionLimit.from_option(max_decompressed)
    )
    n_threads = available_cores() if jobs is None else jobs
    paths = resolve_paths(path)
    payloads = payload_declarations(payload_options or PayloadOptions(), paths)
    return LogRowReader(paths, rows_reader, column_names, topic, n_threads, payloads)


@accept_former_bounds
def read_batches(
    path: Path | Sequence[Path],
    *,
    columns: Iterable[str] | None = None,
    from_offset: int | None = None,
    to_offset: int | None = None,
    from_time: int | datetime | str | None = None,
    to_time: int | datetime | str | None = None,
    max_decompressed: int | None = None,
) -> LogRowReader:
    """The batches of logs: files, partition directories, log directories.

    columns: names of columns of the table `batches` (docs/spark-tables.md). from_offset to to_time:
    inclusive bounds; times are in milliseconds, a datetime, or text as for the command. Raises
    UsageError for an unknown column, and InputError for a missing path.
    """
    selection = parse_bounds(from_offset, to_offset, from_time, to_time)
    return log_rows(path, False, columns, selection, max_decompressed=max_decompressed)


@accept_former_bounds
def read_records(
    path: Path | Sequence[Path],
    *,
    columns: Iterable[str] | None = None,
    from_offset: int | None = None,
    to_offset: int | None = None,
    from_time: int | datetime | str | None = None,
    to_time: int | datetime | str | None = None,
    as_topic: str | None = None,
    topic: str | None = None,
    key_format: str | None = None,
    value_format: str | None = None,
    key_schema: str | None = None,
    value_schema: str | None = None,
    schemas: Path | None = None,
    jobs: int | None = None,
    max_decompressed: int | None = None,
) -> LogRowReader:
    """The records of logs: files, partition directories, log directories.

    columns: names of columns of the table `records` (docs/spark-tables.md). from_offset to to_time:
    inclusive bounds; times are in milliseconds, a datetime, or text as for the command. as_topic:
    its name, if the directory is not named after it; topic is its former spelling. key_format to
    schemas: how to decode keys and values, as with `kfmt dump`; decoded ones are in `decoded_key`
    and `decoded_value`. jobs: number of threads, by default all cores. Raises UsageError for an
    unknown column or format, and InputError for a missing path.
    """
    selection = parse_bounds(from_offset, to_offset, from_time, to_time)

    payload_options = PayloadOptions(
        key_format=key_format,
        key_schema=key_schema,
        value_format=value_format,
        value_schema=value_schema,
        schemas=None if schemas is None else FilePath(os.fsdecode(schemas)),
    )

    if topic is not None:
        warnings.warn(deprecation_message("topic", "as_topic"), DeprecationWarning, stacklevel=2)
    topic = as_topic or topic
    return log_rows(path, True, columns, selection, topic, jobs, max_decompressed, payload_options)


def verify(
    path: Path | Sequence[Path],
    *,
    deep: bool = False,
    jobs: int | None = None,
    max_decompressed: int | None = None,
) -> list[Finding]:
    """All findings of `kfmt verify-crc`; raises InputError for an unreadable input.

    deep: also decode every record.
    """
    options = VerifyCrcOptions(
        paths=resolve_paths(path),
        deep=deep,
        jobs=jobs,
        max_decompressed=max_decompressed,
        given_findings=1 << 60,
    )
    verify_command = VerifyCrcCommand(null_run(), options)
    findings: list[Finding] = []
    for events in (verify_command.find_files(options.paths), verify_command.process_files()):
        for event in events:
            if isinstance(event, InputError):
                raise event
            if isinstance(event, Finding):
                findings.append(event)
    return findings


@dataclass(slots=True)
class FileContentReader:
    """The contents of a file of any kind."""

    kind: str
    """The name of its kind, as in JSON."""
    findings: list[Finding]
    """Its findings; for a log, those in the batches read so far."""
    _load_sections: Callable[[], Iterable[ColumnarRows]]

    def objects(self) -> Iterator[JsonObject]:
        """Plain objects, as in `kfmt dump --format json`, with raw bytes."""
        for columnar_rows in self._load_sections():
            for row in iter_json_objects(columnar_rows, "bytes"):
                yield {"type": columnar_rows.type.name, **row}

    def columns(self) -> Iterator[Columns]:
        """NumPy columns by name, masked for missing values."""
        return (numpy_columns(columnar_rows) for columnar_rows in self._load_sections())

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; needs pyarrow."""
        from kfmt_cli.arrow.columns.arrow_batches import ArrowRows, arrow_batch

        for columnar_rows in self._load_sections():
            yield arrow_batch(ArrowRows(columnar_rows), columnar_rows.type.leaves)


def read_file(path: Path) -> FileContentReader:
    """Read a file of any kind that kfmt knows; a log as batches, whose findings come as they are
    read. Raises InputError."""
    resolved_paths = resolve_paths(path)
    if len(resolved_paths) != 1:
        raise UsageError(f"{len(resolved_paths)} paths; read_file reads one file")
    (resolved_path,) = resolved_paths
    if is_directory(resolved_path):
        raise InputError(
            f"{format_display_name(resolved_path)}: is a directory",
            file=format_display_name(resolved_path),
        )
    file = resolve_input_file(resolved_path)
    if file.kind.reader is not None:
        file_contents = file.read_contents()
        return FileContentReader(
            file.kind.name, file_contents.findings, lambda: file_contents.sections
        )
    findings: list[Finding] = []

    def iter_sections() -> Iterator[ColumnarRows]:
        findings.clear()
        with open_checked_log(file, read_ahead=False) as opened_log:
            for block in opened_log.blocks:
                findings.extend(block.findings)
                for batch_part in LogRowsReader().iter_rows(block):
                    yield batch_part.rows.outer

    with open_checked_log(file, read_ahead=False):
        pass  # raises InputError at once if the file is not a log
    return FileContentReader(file.kind.name, findings, iter_sections)
