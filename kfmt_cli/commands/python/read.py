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

from kfmt_cli.checks.log.verifier import Verifier, open_checked
from kfmt_cli.commands.verify_crc.command import Verify
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.credentials import without_credentials
from kfmt_cli.core.parallel import available_cores, map_ordered
from kfmt_cli.core.urls import is_local, local, name_text, plain
from kfmt_cli.disk.given import file_given, located
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.names import partition_of
from kfmt_cli.disk.opening import is_folder, is_there
from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.disk.targets import GivenPath, target_of, without_doubles
from kfmt_cli.disk.tree import distinct, topic_of
from kfmt_cli.disk.trees import TREES
from kfmt_cli.errors import Caught, InputError, UsageError, unknown_name
from kfmt_cli.findings.finding import Finding, in_order
from kfmt_cli.log.decompress import is_heavy
from kfmt_cli.log.reading import RowsReading
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.rows.section import Object, Rows, Section, columns_of, objects
from kfmt_cli.rows.table_types import BATCHES, RECORDS, chosen
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.record import DECODED_RECORD, RECORD
from kfmt_cli.topics import decoder_for
from kfmt_cli.topics.payloads import NOTHING_SAID, Payloads

if TYPE_CHECKING:
    import pyarrow as pa

Path = str | bytes | os.PathLike[str]
Paths = Path | Sequence[Path]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Columns = dict[str, np.ndarray[Any, Any]]


def path_names(path: Path | Sequence[Path]) -> tuple[str, ...]:
    """One path or several, as text; what is there may have changed since the last call. Raises
    InputError, also for a path where there is nothing."""
    names = [plain(without_credentials(os.fsdecode(each))) for each in each_of(path)]
    for name in names:
        TREES.forget(name)
    return tuple(there(located(name)) for name in names)


def each_of(path: Path | Sequence[Path]) -> Sequence[Path]:
    """One path or several, as several."""
    return [path] if isinstance(path, str | bytes | os.PathLike) else path


def texts(given: str | Iterable[str]) -> tuple[str, ...]:
    """One text or several, as several."""
    return (given,) if isinstance(given, str) else tuple(given)


def there(name: str) -> str:
    """A path, if there is something; raises InputError."""
    if is_local(name) and not is_there(local(name)):
        words = f"{name_text(name)}: No such file or directory"
        raise InputError(words, file=name_text(name), is_gone=True)
    return name


@dataclass(slots=True, repr=False)
class LogRows:
    """The batches or records of some logs, read on demand.

    Iterating yields Arrow record batches if pyarrow is installed, otherwise columns.
    """

    _paths: tuple[str, ...]
    _reading: RowsReading
    _columns: tuple[str, ...]
    _topic: str | None
    _jobs: int
    _payloads: Payloads = NOTHING_SAID
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

    def within(self, bounds: Selection) -> LogRows:
        """The same rows, but only those within other bounds, too."""
        reading = replace(self._reading, wanted=self._reading.wanted.within(bounds))
        return LogRows(self._paths, reading, self._columns, self._topic, self._jobs, self._payloads)

    @property
    def _table(self) -> str:
        return (RECORDS if self._reading.records else BATCHES).name

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; needs pyarrow."""
        from kfmt_cli.arrow.columns.schema import schema_of

        return schema_of(chosen(self._table, self._columns))

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; needs pyarrow."""
        from kfmt_cli.arrow.columns.sections import part_of, record_batch, slices
        from kfmt_cli.arrow.columns.tables import shared_by_file
        from kfmt_cli.arrow.topic_ids import TopicIds

        columns, ids = chosen(self._table, self._columns), TopicIds()

        def id_in(folder: str) -> str | None:
            with self._noting():
                return ids[folder]
            return ids.setdefault(folder, None)

        for file, rows in self._rows():
            id_of = partial(id_in, file.path.rpartition("/")[0] or ".")
            shared = shared_by_file(file.path, file.kind.name, partition_of(file.path), id_of)
            for part in slices(part_of(rows)):
                yield record_batch(part, columns, shared)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream for pandas, Polars and DuckDB; needs pyarrow."""
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.arrow())
        return reader.__arrow_c_stream__(requested_schema)

    def columns(self) -> Iterator[Columns]:
        """NumPy columns by name, masked for missing values; raises UsageError for a column that
        only Arrow has."""
        types = (RECORD, DECODED_RECORD) if self._reading.records else (BATCH,)
        known = {leaf.name: None for type_ in types for leaf in type_.leaves}
        for name in self._columns:
            if name not in known:
                raise unknown_name("NumPy column", name, known)
        for _, rows in self._rows():
            yield columns_of(_counted(rows), self._columns)

    def objects(self) -> Iterator[Object]:
        """Plain objects, as in `kfmt dump --format json`, with raw bytes; whole ones, whichever
        columns were chosen."""
        for file, rows in self._rows():
            section = _counted(rows)
            members = {
                "type": section.type.name,
                **with_place({"file": file.name}, section.type.placed),
            }
            for row in objects(section, "bytes"):
                yield {**members, **row}

    def _rows(self) -> Iterator[tuple[Input, Rows]]:
        """The rows of each log; raises InputError if none of them could be read."""
        self.findings.clear()
        self.unread.clear()
        n_read = 0
        for file in _logs(self._paths, self._note):
            with self._noting():
                yield from ((file, rows) for rows in self._rows_of(file))
                n_read += 1
        if self.unread and not n_read:
            raise InputError(self.unread[0])

    def _noting(self) -> Caught:
        return Caught(lambda error: self._note(str(error)))

    def _note(self, words: str) -> None:
        """Add a message, once."""
        if words not in self.unread:
            self.unread.append(words)

    def _rows_of(self, file: Input) -> Iterator[Rows]:
        topic = self._topic or topic_of(file)
        decoder = None
        if self._reading.records:
            decoder = decoder_for(topic) or self._payloads.decoder
        reading = replace(self._reading, decoder=decoder)
        with open_checked(file, read_ahead=False) as log:
            workers = self._jobs if log.is_large and reading.records else 0
            blocks = reading.ahead(log.blocks)
            for parts in map_ordered(reading.decoded, blocks, workers, is_heavy):
                for part in parts:
                    self.findings += in_order(part.findings)
                    if len(part.rows):
                        yield part.rows


def _counted(rows: Rows) -> Section:
    """The inner rows, or the outer ones if there are none."""
    return rows.outer if rows.inner is None else rows.inner


def _logs(paths: tuple[str, ...], note: Callable[[str], None]) -> Iterator[Input]:
    """The distinct logs under some paths; KRaft snapshots only if their own path is given. Raises
    InputError for an unusable path. note: receives messages about what cannot be listed."""
    seen: set[str] = set()
    for target in without_doubles(map(_target, paths)):
        for words in target.unlisted:
            note(words)
        yield from distinct(target.in_use(lambda _: None).inputs(frozenset({LOG})), seen)


def _target(path: str) -> GivenPath:
    try:
        return target_of(path)
    except UsageError as error:
        raise InputError(str(error), file=path) from error


def log_rows(
    path: Path | Sequence[Path],
    records: bool,
    columns: Iterable[str] | None,
    wanted: Selection,
    topic: str | None = None,
    jobs: int | None = None,
    max_decompressed: int | None = None,
    payloads: Callable[[tuple[str, ...]], Payloads] = lambda _: NOTHING_SAID,
) -> LogRows:
    """The rows of logs; raises UsageError for an unknown column, InputError for a missing path.
    payloads: the formats of keys and values for some paths."""
    table = RECORDS if records else BATCHES
    names = texts(columns or ())
    for name in names:
        if name not in table.by_name:
            raise unknown_name("column", name, table.by_name)
    reading = RowsReading(records, wanted, Limit.of_option(max_decompressed))
    cores = available_cores() if jobs is None else jobs
    paths = path_names(path)
    return LogRows(paths, reading, names, topic, cores, payloads(paths))


def bounds_of(
    first_offset: int | None,
    last_offset: int | None,
    first_time: int | datetime | None,
    last_time: int | datetime | None,
) -> Selection:
    """The bounds of rows; raises UsageError for those that are no numbers."""
    return Selection(
        integer("first_offset", first_offset),
        integer("last_offset", last_offset),
        integer("first_time", milliseconds(first_time, up=True)),
        integer("last_time", milliseconds(last_time)),
    )


def integer(name: str, value: object) -> int | None:
    """An argument as an int, such as of NumPy's types; raises UsageError for other values."""
    if value is None:
        return None
    if not isinstance(value, Integral):
        raise UsageError(f"{name} is {value!r}; it must be an integer")
    return int(value)


def milliseconds(time: int | datetime | None, *, up: bool = False) -> int | None:
    """A time as Kafka stores it; a datetime without a zone is in UTC. up: round up, not down."""
    if not isinstance(time, datetime):
        return time
    aware = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    since, one = aware - EPOCH, timedelta(milliseconds=1)
    return -(-since // one) if up else since // one


def read_batches(
    path: Path | Sequence[Path],
    *,
    columns: Iterable[str] | None = None,
    first_offset: int | None = None,
    last_offset: int | None = None,
    first_time: int | datetime | None = None,
    last_time: int | datetime | None = None,
    max_decompressed: int | None = None,
) -> LogRows:
    """The batches of logs: files, partition directories, log directories.

    columns: of the table `batches` (docs/spark-tables.md). first_offset to last_time: inclusive
    bounds; times are in milliseconds, or a datetime. Raises UsageError for an unknown column, and
    InputError for a missing path.
    """
    wanted = bounds_of(first_offset, last_offset, first_time, last_time)
    return log_rows(path, False, columns, wanted, max_decompressed=max_decompressed)


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
) -> LogRows:
    """The records of logs: files, partition directories, log directories.

    columns: of the table `records` (docs/spark-tables.md). first_offset to last_time: inclusive
    bounds; times are in milliseconds, or a datetime. topic: its name, if the directory is not named
    after it. key_format to schemas: how to decode keys and values, as with `kfmt dump`; decoded
    ones are in `decoded_key` and `decoded_value`. jobs: number of threads, by default all cores.
    Raises UsageError for an unknown column or format, and InputError for a missing path.
    """
    wanted = bounds_of(first_offset, last_offset, first_time, last_time)

    def payloads(paths: tuple[str, ...]) -> Payloads:
        if key_format is None and value_format is None:
            return NOTHING_SAID
        from kfmt_cli.commands.payload_formats import payloads_of

        folder = None if schemas is None else FilePath(os.fsdecode(schemas))
        return payloads_of((key_format, key_schema), (value_format, value_schema), folder, paths)

    return log_rows(path, True, columns, wanted, topic, jobs, max_decompressed, payloads)


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
    verifier = Verifier(deep, Limit.of_option(max_decompressed), cores)
    task = Verify(verifier, cores, most_findings=1 << 60)
    found: list[Finding] = []
    for step in (task.plan(path_names(path)), task.events()):
        for event in step:
            if isinstance(event, InputError):
                raise event
            if isinstance(event, Finding):
                found.append(event)
    return found


@dataclass(slots=True)
class FileRows:
    """The contents of a file of any kind."""

    kind: str
    """The name of its kind, as in JSON."""
    findings: list[Finding]
    """Its findings; for a log, those in the batches read so far."""
    _sections: Callable[[], Iterable[Section]]

    def objects(self) -> Iterator[Object]:
        """Plain objects, as in `kfmt dump --format json`, with raw bytes."""
        for section in self._sections():
            for row in objects(section, "bytes"):
                yield {"type": section.type.name, **row}

    def columns(self) -> Iterator[Columns]:
        """NumPy columns by name, masked for missing values."""
        return (columns_of(section) for section in self._sections())

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches; needs pyarrow."""
        from kfmt_cli.arrow.columns.sections import ArrowPart, record_batch

        for section in self._sections():
            yield record_batch(ArrowPart(section), section.type.leaves)


def read_file(path: Path) -> FileRows:
    """Read a file of any kind that kfmt knows; a log as batches, whose findings come as they are
    read. Raises InputError."""
    names = path_names(path)
    if len(names) != 1:
        raise UsageError(f"{len(names)} paths; read_file reads one file")
    (name,) = names
    if is_folder(name):
        raise InputError(f"{name_text(name)}: is a directory", file=name_text(name))
    file = file_given(name)
    if file.kind.read is not None:
        contents = file.contents()
        return FileRows(file.kind.name, contents.findings, lambda: contents.sections)
    findings: list[Finding] = []

    def sections() -> Iterator[Section]:
        findings.clear()
        with open_checked(file, read_ahead=False) as log:
            for block in log.blocks:
                findings.extend(block.findings)
                for part in RowsReading().parts(block):
                    yield part.rows.outer

    with open_checked(file, read_ahead=False):
        pass  # raises InputError at once if the file is not a log
    return FileRows(file.kind.name, findings, sections)
