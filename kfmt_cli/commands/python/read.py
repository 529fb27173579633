"""Reading for programs: rows as Arrow, NumPy columns or plain objects, with findings.

The reading part of kfmt_cli's Python API (docs/python.md). It finds files as the commands do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from numbers import Integral
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from kfmt_cli.checks.log.checker import LogChecker, open_checked_log
from kfmt_cli.commands.verify_crc.command import VerifyCrcCommand
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
from kfmt_cli.disk.path_resolution import input_file_at, resolve_display_path
from kfmt_cli.errors import InputError, InputErrorHandler, UsageError, unknown_name_error
from kfmt_cli.findings.finding import Finding, sort_findings
from kfmt_cli.log.decompression import must_decode_separately
from kfmt_cli.log.rows_reader import LogRowsReader
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.rows.columnar_rows import (
    ColumnarRows,
    JsonObject,
    NestedRows,
    iter_objects,
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
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Columns = dict[str, np.ndarray[Any, Any]]


def resolve_paths(path: Path | Sequence[Path]) -> tuple[str, ...]:
    """One or several paths as normalized text, without credentials. Discards cached mounts, as the
    files may have changed since the last call. Raises InputError, also for a missing path."""
    names = [normalize_path(strip_credentials(os.fsdecode(path_))) for path_ in as_sequence(path)]
    for name in names:
        MOUNTS.forget(name)
    return tuple(require_path(resolve_display_path(name)) for name in names)


def as_sequence(path: Path | Sequence[Path]) -> Sequence[Path]:
    """One or several paths, as a sequence."""
    return [path] if isinstance(path, str | bytes | os.PathLike) else path


def as_tuple(text_or_texts: str | Iterable[str]) -> tuple[str, ...]:
    """One or several strings, as a tuple."""
    return (text_or_texts,) if isinstance(text_or_texts, str) else tuple(text_or_texts)


def require_path(name: str) -> str:
    """The path itself; raises InputError if it is local and does not exist."""
    if is_local(name) and not path_exists(strip_file_scheme(name)):
        message = f"{format_display_name(name)}: No such file or directory"
        raise InputError(message, file=format_display_name(name), is_missing=True)
    return name


@dataclass(slots=True, repr=False)
class LogRowReader:
    """The batches or records of some logs, read on demand.

    Iterating yields Arrow record batches if pyarrow is installed, otherwise columns.
    """

    _paths: tuple[str, ...]
    _reading: LogRowsReader
    _columns: tuple[str, ...]
    _topic: str | None
    _jobs: int
    _payloads: PayloadDeclarations = NO_DECLARATIONS
    findings: list[Finding] = field(default_factory=list)
    """Findings so far, of the last pass; damage never raises."""
    unread: list[str] = field(default_factory=list)
    """Messages about unreadable inputs."""

    def __repr__(self) -> str:
        return f"<LogRows: {self._table} of {', '.join(self._paths)}>"

    def __iter__(self) -> Iterator[Any]:
        try:
            import pyarrow as pa  # noqa: F401
        except ImportError:
            return self.columns()
        return self.arrow()

    def within(self, bounds: Selection) -> LogRowReader:
        """The same rows, restricted to further bounds."""
        reading = replace(self._reading, selection=self._reading.selection.intersect(bounds))
        return LogRowReader(
            self._paths, reading, self._columns, self._topic, self._jobs, self._payloads
        )

    @property
    def _table(self) -> str:
        return (RECORDS_TABLE if self._reading.with_records else BATCHES_TABLE).name

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; needs pyarrow."""
        from kfmt_cli.arrow.columns.schema import arrow_schema

        return arrow_schema(select_columns(self._table, self._columns))

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; needs pyarrow."""
        from kfmt_cli.arrow.columns.arrow_batches import arrow_batch, arrow_rows, split_rows
        from kfmt_cli.arrow.columns.tables import file_column_factory
        from kfmt_cli.arrow.topic_ids import TopicIdCache

        columns, topic_ids = select_columns(self._table, self._columns), TopicIdCache()

        def topic_id_in(directory: str) -> str | None:
            with self._catch_unread():
                return topic_ids[directory]
            return topic_ids.setdefault(directory, None)

        for file, rows in self._iter_rows():
            find_topic_id = partial(topic_id_in, file.path.rpartition("/")[0] or ".")
            shared_columns = file_column_factory(
                file.path, file.kind.name, file_topic_partition(file.path), find_topic_id
            )
            for batch_rows in split_rows(arrow_rows(rows)):
                yield arrow_batch(batch_rows, columns, shared_columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream for pandas, Polars and DuckDB; needs pyarrow."""
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.arrow())
        return reader.__arrow_c_stream__(requested_schema)

    def columns(self) -> Iterator[Columns]:
        """NumPy columns by name, masked for missing values; raises UsageError for a column that
        only Arrow has."""
        types = (RECORD_ROW, DECODED_RECORD_ROW) if self._reading.with_records else (BATCH_ROW,)
        column_names = {leaf.name: None for type_ in types for leaf in type_.leaves}
        for name in self._columns:
            if name not in column_names:
                raise unknown_name_error("NumPy column", name, column_names)
        for _, rows in self._iter_rows():
            yield numpy_columns(_innermost_rows(rows), self._columns)

    def objects(self) -> Iterator[JsonObject]:
        """Plain objects, as in `kfmt dump --format json`, with raw bytes; whole ones, whichever
        columns were chosen."""
        for file, rows in self._iter_rows():
            section = _innermost_rows(rows)
            members = {
                "type": section.type.name,
                **with_location({"file": file.name}, section.type.location_source),
            }
            for row in iter_objects(section, "bytes"):
                yield {**members, **row}

    def _iter_rows(self) -> Iterator[tuple[InputFile, NestedRows]]:
        """The rows of each log; raises InputError if none of them could be read."""
        self.findings.clear()
        self.unread.clear()
        n_read = 0
        for file in _iter_logs(self._paths, self._add_unread):
            with self._catch_unread():
                yield from ((file, rows) for rows in self._iter_log_rows(file))
                n_read += 1
        if self.unread and not n_read:
            raise InputError(self.unread[0])

    def _catch_unread(self) -> InputErrorHandler:
        return InputErrorHandler(lambda error: self._add_unread(str(error)))

    def _add_unread(self, message: str) -> None:
        """Add a message unless it was added before."""
        if message not in self.unread:
            self.unread.append(message)

    def _iter_log_rows(self, file: InputFile) -> Iterator[NestedRows]:
        topic = self._topic or file_topic(file)
        decoder = None
        if self._reading.with_records:
            decoder = find_decoder(topic) or self._payloads.decoder
        reading = replace(self._reading, decoder=decoder)
        with open_checked_log(file, read_ahead=False) as log:
            workers = self._jobs if log.is_large and reading.with_records else 0
            blocks = reading.iter_prepared_blocks(log.blocks)
            for decoded_parts in map_ordered(
                reading.read_rows, blocks, workers, must_decode_separately
            ):
                for part in decoded_parts:
                    self.findings += sort_findings(part.findings)
                    if len(part.rows):
                        yield part.rows


def _innermost_rows(rows: NestedRows) -> ColumnarRows:
    """The inner rows, or the outer ones if there are none."""
    return rows.outer if rows.inner is None else rows.inner


def _iter_logs(paths: tuple[str, ...], on_unlisted: Callable[[str], None]) -> Iterator[InputFile]:
    """The distinct logs under some paths; a KRaft snapshot only if it is one of the paths. Raises
    InputError for an unusable path. on_unlisted: called with the message for each directory that
    cannot be listed."""
    visited: set[str] = set()
    for target in drop_duplicate_segments(map(_resolve_target, paths)):
        for message in target.listing_errors:
            on_unlisted(message)
        yield from distinct_files(
            target.exclude_marked(lambda _: None).iter_files(frozenset({LOG_KIND})), visited
        )


def _resolve_target(path: str) -> InputPath:
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
    load_payloads: Callable[[tuple[str, ...]], PayloadDeclarations] = lambda _: NO_DECLARATIONS,
) -> LogRowReader:
    """The rows of logs; raises UsageError for an unknown column, InputError for a missing path.
    load_payloads: returns the formats of keys and values for some paths."""
    table = RECORDS_TABLE if reads_records else BATCHES_TABLE
    names = as_tuple(columns or ())
    for name in names:
        if name not in table.leaf_by_name:
            raise unknown_name_error("column", name, table.leaf_by_name)
    reading = LogRowsReader(
        reads_records, selection, DecompressionLimit.from_option(max_decompressed)
    )
    cores = available_cores() if jobs is None else jobs
    paths = resolve_paths(path)
    return LogRowReader(paths, reading, names, topic, cores, load_payloads(paths))


def parse_bounds(
    first_offset: int | None,
    last_offset: int | None,
    first_time: int | datetime | None,
    last_time: int | datetime | None,
) -> Selection:
    """The selection of rows within inclusive bounds; raises UsageError for a bound that is not an
    integer or a datetime."""
    return Selection(
        parse_integer("first_offset", first_offset),
        parse_integer("last_offset", last_offset),
        parse_integer("first_time", datetime_to_ms(first_time, rounds_up=True)),
        parse_integer("last_time", datetime_to_ms(last_time)),
    )


def parse_integer(name: str, value: object) -> int | None:
    """An integer of any type, such as NumPy's, as an int; None stays None. Raises UsageError for
    other values. name: the argument's name, for the message."""
    if value is None:
        return None
    if not isinstance(value, Integral):
        raise UsageError(f"{name} is {value!r}; it must be an integer")
    return int(value)


def datetime_to_ms(time: int | datetime | None, *, rounds_up: bool = False) -> int | None:
    """A time in milliseconds since the epoch, as Kafka stores it; a datetime without a time zone is
    in UTC. rounds_up: round up, not down."""
    if not isinstance(time, datetime):
        return time
    aware = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    since_epoch, one_ms = aware - EPOCH, timedelta(milliseconds=1)
    return -(-since_epoch // one_ms) if rounds_up else since_epoch // one_ms


def read_batches(
    path: Path | Sequence[Path],
    *,
    columns: Iterable[str] | None = None,
    first_offset: int | None = None,
    last_offset: int | None = None,
    first_time: int | datetime | None = None,
    last_time: int | datetime | None = None,
    max_decompressed: int | None = None,
) -> LogRowReader:
    """The batches of logs: files, partition directories, log directories.

    columns: of the table `batches` (docs/spark-tables.md). first_offset to last_time: inclusive
    bounds; times are in milliseconds, or a datetime. Raises UsageError for an unknown column, and
    InputError for a missing path.
    """
    selection = parse_bounds(first_offset, last_offset, first_time, last_time)
    return log_rows(path, False, columns, selection, max_decompressed=max_decompressed)


def read_records(
    path: Path | Sequence[Path],
    *,
    columns: Iterable[str] | None = None,
    first_offset: int | None = None,
    last_offset: int | None = None,
    first_time: int | datetime | None = None,
    last_time: int | datetime | None = None,
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

    columns: of the table `records` (docs/spark-tables.md). first_offset to last_time: inclusive
    bounds; times are in milliseconds, or a datetime. topic: its name, if the directory is not named
    after it. key_format to schemas: how to decode keys and values, as with `kfmt dump`; decoded
    ones are in `decoded_key` and `decoded_value`. jobs: number of threads, by default all cores.
    Raises UsageError for an unknown column or format, and InputError for a missing path.
    """
    selection = parse_bounds(first_offset, last_offset, first_time, last_time)

    def load_payloads(paths: tuple[str, ...]) -> PayloadDeclarations:
        if key_format is None and value_format is None:
            return NO_DECLARATIONS
        from kfmt_cli.commands.payload_formats import payload_declarations

        schema_directory = None if schemas is None else FilePath(os.fsdecode(schemas))
        return payload_declarations(
            (key_format, key_schema), (value_format, value_schema), schema_directory, paths
        )

    return log_rows(path, True, columns, selection, topic, jobs, max_decompressed, load_payloads)


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
    cores = available_cores() if jobs is None else jobs
    verifier = LogChecker(deep, DecompressionLimit.from_option(max_decompressed), cores)
    task = VerifyCrcCommand(verifier, cores, max_findings=1 << 60)
    findings: list[Finding] = []
    for events in (task.find_files(resolve_paths(path)), task.process()):
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
        for section in self._load_sections():
            for row in iter_objects(section, "bytes"):
                yield {"type": section.type.name, **row}

    def columns(self) -> Iterator[Columns]:
        """NumPy columns by name, masked for missing values."""
        return (numpy_columns(section) for section in self._load_sections())

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; needs pyarrow."""
        from kfmt_cli.arrow.columns.arrow_batches import ArrowRows, arrow_batch

        for section in self._load_sections():
            yield arrow_batch(ArrowRows(section), section.type.leaves)


def read_file(path: Path) -> FileContentReader:
    """Read a file of any kind that kfmt knows; a log as batches, whose findings come as they are
    read. Raises InputError."""
    names = resolve_paths(path)
    if len(names) != 1:
        raise UsageError(f"{len(names)} paths; read_file reads one file")
    (name,) = names
    if is_directory(name):
        raise InputError(
            f"{format_display_name(name)}: is a directory", file=format_display_name(name)
        )
    file = input_file_at(name)
    if file.kind.read is not None:
        contents = file.read_contents()
        return FileContentReader(file.kind.name, contents.findings, lambda: contents.sections)
    findings: list[Finding] = []

    def sections() -> Iterator[ColumnarRows]:
        findings.clear()
        with open_checked_log(file, read_ahead=False) as log:
            for block in log.blocks:
                findings.extend(block.findings)
                for part in LogRowsReader().iter_rows(block):
                    yield part.rows.outer

    with open_checked_log(file, read_ahead=False):
        pass  # raises InputError at once if the file is not a log
    return FileContentReader(file.kind.name, findings, sections)
