"""Runs SQL queries with DuckDB."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

import duckdb
import pyarrow as pa

from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.arrow.result_rows import result_row_type, result_rows
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.sql.log_dataset import LogDataset
from kfmt_cli.commands.sql.sql_tables import ScanStatus, TableScan
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.temporary_locks import TemporaryLock, create_locked_directory
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.path_resolution import read_private_key
from kfmt_cli.disk.topic_filter import select_topics
from kfmt_cli.errors import ExitCode, KfmtError, UsageError
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.render.sinks.sink import FileHeading
from kfmt_cli.render.style import format_count
from kfmt_cli.rows.columnar_rows import NestedRows
from kfmt_cli.rows.table_types import TABLES
from kfmt_cli.topics.payloads import NO_DECLARATIONS, PayloadDeclarations
from kfmt_cli.writers.output import require_outside_inputs

MAX_TOPIC_VIEWS = 1000
_SOURCE_NAME = re.compile(r'\b(?:from|join|describe)\s+("[^"]+"|[\w.]+)', re.IGNORECASE)
ROWS_PER_BATCH = 2048  # rows, the size of DuckDB's own vectors
MAX_QUEUED_BATCHES = 4  # batches that may wait to be written
_DUCKDB_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # Python variables are not tables
}
_ERROR_LOCATION = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^", re.DOTALL)
# A text in SQL: 'text', in which '' is a quote, or $tag$text$tag$.
_TEXT = r"(?:'((?:[^']|'')*)'|\$(\w*)\$(.*?)\$\2\$)"
_OUTPUT_PATTERN_BY_TYPE = {
    "COPY": re.compile(rf"\bto\s*{_TEXT}", re.IGNORECASE | re.DOTALL),
    **dict.fromkeys(("EXPORT", "ATTACH"), re.compile(_TEXT, re.DOTALL)),
}
# DuckDB's operator finds no field in bytes: it escapes their quotes.
_JSON_FIELD_MACRO = """create macro "->>"(value, field) as
json_extract_string(try_cast(try(decode(unhex(hex(value)))) as json), field)"""
_UNQUOTED_OFFSET = re.compile(r'(?<!")\boffset\b(?!")', re.IGNORECASE)


@dataclass(slots=True)
class SqlSession:
    """Runs queries on the files under some paths, and shows the results."""

    run: CommandRun
    paths: tuple[str, ...]
    decompression_limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    reads_all_replicas: bool = False
    topic_patterns: Sequence[str] = ()
    payload_declarations: PayloadDeclarations = NO_DECLARATIONS
    connection: Any = field(init=False)
    _scan_status: ScanStatus = field(init=False)
    _spill_directory: TemporaryLock = field(init=False)
    """Where DuckDB stores what exceeds its memory: records."""
    _has_topic_views: bool = False

    def __post_init__(self) -> None:
        self._scan_status, private_key = ScanStatus(), read_private_key()
        self._spill_directory = create_locked_directory("sql")
        spill_path = str(self._spill_directory.files_directory)
        self.connection = duckdb.connect(config={**_DUCKDB_SETTINGS, "temp_directory": spill_path})
        self.connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        with suppress(duckdb.Error):  # a version without these functions
            self.connection.execute(_JSON_FIELD_MACRO)
        request = ReadRequest(
            "records",
            self.paths,
            topics=self._select_topics(),
            decompression_limit=self.decompression_limit,
            reads_all_replicas=self.reads_all_replicas,
            decodes_records=True,
            payload_declarations=self.payload_declarations,
            private_key=private_key,
        )
        for table_name, table_type in TABLES.items():
            table_scan = TableScan(replace(request, table=table_name), self._scan_status)
            self.connection.register(
                table_name,
                LogDataset(arrow_schema(table_type.leaves), table_scan.iter_arrow_batches),
            )

    def _list_topics(self) -> set[str]:
        """The topics under the paths; raises InputError."""
        splits = list_input_files(ReadRequest("records", self.paths))
        return {topic for split in splits if (topic := split.topic_partition[0])}

    def _select_topics(self) -> frozenset[str]:
        """The topics to read, empty for all; raises InputError."""
        if not self.topic_patterns:
            return frozenset()
        return select_topics(self.topic_patterns, self._list_topics())

    def _create_topic_views(self) -> None:
        """Create a view of the records of each topic, with key and value as text and JSON."""
        self._has_topic_views = True
        value_json = "try_cast(try(decode(value)) as json)"
        if self.payload_declarations.value is not None:
            value_json = (
                f"coalesce(json_extract(try_cast(decoded_value as json), '$.value'), {value_json})"
            )
        with suppress(KfmtError):  # a query reports what cannot be read
            for topic in sorted(self._list_topics())[:MAX_TOPIC_VIEWS]:
                if topic in TABLES:
                    continue
                name, text = topic.replace('"', '""'), topic.replace("'", "''")
                view = (
                    f'create view "{name}" as select *, try(decode(key)) as key_text, '  # noqa: S608
                    f"{value_json} as value_json from records "
                    f"where topic = '{text}'"
                )
                with suppress(duckdb.Error):  # a version without these functions
                    self.connection.execute(view)

    def run_statements(self, sql_text: str) -> None:
        """Run statements and show their results; raises UsageError for a mistake in them, and for
        one that would write to an input."""
        sources = (name.strip('"') for name in _SOURCE_NAME.findall(sql_text))
        if not self._has_topic_views and any(name not in TABLES for name in sources):
            self._create_topic_views()
        with _convert_duckdb_errors(sql_text):
            statements = self.connection.extract_statements(sql_text)
        for statement in statements:
            for output_path in _find_output_paths(statement):
                require_outside_inputs(output_path, self.paths)
            self._run_statement(statement.query)

    def _run_statement(self, query: str) -> None:
        self._scan_status.stop_event.clear()
        self._scan_status.n_errors_by_path.clear()
        self._scan_status.input_error_messages.clear()
        result_stream = self._iter_result(query)
        try:
            self._write_result(result_stream)
        finally:
            result_stream.close()
            self._report_damage()

    def _write_result(self, result_stream: Iterator[pa.Schema | pa.RecordBatch]) -> None:
        schema = next(result_stream, None)
        if schema is None or schema.names == ["Success"]:
            return
        row_type = result_row_type(schema)
        writer = self.run.sink.begin_rows(FileHeading("", row_nouns=("row", "rows")), row_type)
        self.run.sink.flush_texts()
        for batch in result_stream:
            nested_rows = NestedRows(result_rows(row_type, batch))
            for output_chunk in writer.render(nested_rows, 0, len(nested_rows)):
                self.run.output.write(output_chunk)
        self.run.sink.write_line(writer.closing_text())
        self.run.sink.flush_texts()

    def _iter_result(self, query: str) -> Generator[pa.Schema | pa.RecordBatch, None, None]:
        """The schema of the result, if it has one, and its rows.

        A thread waits for DuckDB, so that Ctrl+C reaches Python. Closing the iterator interrupts
        the query.
        """
        result_queue: Queue[Any] = Queue(MAX_QUEUED_BATCHES)
        worker_done_event, has_result_ended = Event(), False

        def run_query() -> None:
            _queue_result(self.connection, query, result_queue)
            worker_done_event.set()

        worker = Thread(target=run_query, daemon=True)
        with _convert_duckdb_errors(query):
            try:
                worker.start()  # inside `try`: Ctrl+C may come as soon as it has started
                while not has_result_ended:
                    queue_item = result_queue.get()
                    has_result_ended = queue_item is None or isinstance(queue_item, BaseException)
                    if isinstance(queue_item, BaseException):
                        raise queue_item
                    if queue_item is not None:
                        yield queue_item
            finally:
                self._scan_status.stop_event.set()
                while not worker_done_event.wait(0.05) and worker.ident is not None:
                    if not has_result_ended:
                        self.connection.interrupt()
                    with suppress(Empty):
                        result_queue.get_nowait()

    def _report_damage(self) -> None:
        """Report unreadable inputs and damage."""
        for message, error in self._scan_status.input_error_messages.items():
            self.run.report_input_error(error or message)
        if n_errors_by_path := self._scan_status.n_errors_by_path:
            self.run.output.raise_exit_code(ExitCode.FINDINGS)
            errors_text = format_count(sum(n_errors_by_path.values()), "error")
            message = (
                f"{errors_text} in {format_count(len(n_errors_by_path), 'file')}, "
                f"{format_display_name(next(iter(n_errors_by_path)))}"
            )
            ellipsis = ", …" if len(n_errors_by_path) > 1 else ""
            self.run.sink.write_to_stderr(
                f"kfmt: {message}{ellipsis}: only readable rows are returned; see the table "
                "findings\n"
            )

    def close(self) -> None:
        """Close the connection to DuckDB and remove its files."""
        try:
            self.connection.close()
        finally:
            self._spill_directory.remove_and_unlock()


def _find_output_paths(statement: Any) -> Iterator[str]:
    """The paths that a statement of DuckDB writes to, or opens for writing."""
    pattern = _OUTPUT_PATTERN_BY_TYPE.get(statement.type.name)
    for match in () if pattern is None else pattern.finditer(statement.query):
        quoted, _, dollar_quoted = match.groups()
        yield quoted.replace("''", "'") if quoted is not None else dollar_quoted


def _queue_result(connection: Any, query: str, result_queue: Queue[Any]) -> None:
    """Put the schema and the batches of a result into a queue, then None; or an error."""
    try:
        relation = connection.sql(query)
        if relation is not None:
            reader = relation.to_arrow_reader(ROWS_PER_BATCH)
            result_queue.put(reader.schema)
            n_rows = 0
            for batch in reader:
                result_queue.put(batch)
                n_rows += len(batch)
            if not n_rows:  # the heading shows the columns of an empty result
                result_queue.put(pa.RecordBatch.from_pylist([], schema=reader.schema))
        result_queue.put(None)
    except BaseException as error:
        result_queue.put(error)


@contextmanager
def _convert_duckdb_errors(query: str) -> Iterator[None]:
    """Convert DuckDB's errors; raises UsageError for mistakes in a query, otherwise KfmtError."""
    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise KfmtError(_format_duckdb_error(str(error))) from None
    except (duckdb.Error, RuntimeError) as error:
        message = _format_duckdb_error(str(error))
        if message.startswith("Parser Error") and _UNQUOTED_OFFSET.search(query):
            message += "; the column offset needs double quotes, as it is a keyword"
        raise UsageError(message) from None


def _format_duckdb_error(error_text: str) -> str:
    """DuckDB's message on one line, with the location that it marks below the query."""
    match = _ERROR_LOCATION.search(error_text)
    location = ""
    if match is not None:
        column = len(match[3]) - len(f"LINE {match[1]}: ") + 1
        location = f" (line {match[1]}"
        location += ")" if match[2].startswith("...") else f", column {column})"
        error_text = error_text[: match.start()]
    error_text = error_text.partition("\n\nPlease try installing")[0]
    lines = [line.strip().rstrip("!.") for line in error_text.splitlines() if line.strip()]
    return "; ".join(lines) + location
