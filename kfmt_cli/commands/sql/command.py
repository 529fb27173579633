"""sql: answers questions in SQL, by DuckDB."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

import duckdb
import pyarrow as pa

from kfmt_cli.arrow.columns.schema import schema_of
from kfmt_cli.arrow.result_rows import result_section, rows_of_result
from kfmt_cli.commands.run import Run
from kfmt_cli.commands.sql.log_dataset import LogDataset
from kfmt_cli.commands.sql.sql_tables import ReadSoFar, TableScan
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.given import private_key_bytes
from kfmt_cli.errors import ExitCode, KfmtError, UsageError
from kfmt_cli.render.sinks.sink import Head
from kfmt_cli.render.style import count
from kfmt_cli.rows.section import Rows
from kfmt_cli.rows.table_types import TABLES
from kfmt_cli.sharing.request import Request

AT_ONCE = 2048  # rows, the size of DuckDB's own vectors
AHEAD = 4  # batches that may wait to be written
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # variables of kfmt are no tables
    "temp_directory": os.path.join(tempfile.gettempdir(), f"kfmt-sql-{os.getpid()}"),  # noqa: PTH118
}
_PLACE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^", re.DOTALL)
_OFFSET = re.compile(r'(?<!")\boffset\b(?!")', re.IGNORECASE)


@dataclass(slots=True)
class SqlSession:
    """Questions about some paths, and their answers."""

    run: Run
    paths: tuple[str, ...]
    limit: Limit = field(default_factory=Limit)
    connection: Any = field(init=False)
    _so_far: ReadSoFar = field(init=False)

    def __post_init__(self) -> None:
        self._so_far, key = ReadSoFar(), private_key_bytes()
        self.connection = duckdb.connect(config=dict(_SETTINGS))
        self.connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        for name, rows in TABLES.items():
            request = Request(name, self.paths, limit=self.limit, deep=True, private_key=key)
            scan = TableScan(request, self._so_far)
            self.connection.register(name, LogDataset(schema_of(rows.leaves), scan.parts))

    def ask(self, text: str) -> None:
        """Run statements and show their results; raises UsageError for a mistake in them."""
        with _told_in_one_line(text):
            statements = self.connection.extract_statements(text)
        for statement in statements:
            self._ask(statement.query)

    def _ask(self, query: str) -> None:
        self._so_far.stopped.clear()
        self._so_far.damaged.clear()
        self._so_far.unread.clear()
        batches = self._answer(query)
        try:
            self._show(batches)
        finally:
            batches.close()
            self._tell()

    def _show(self, batches: Iterator[pa.Schema | pa.RecordBatch]) -> None:
        schema = next(batches, None)
        if schema is None or schema.names == ["Success"]:
            return
        rows = rows_of_result(schema)
        writer = self.run.sink.rows(Head("", nouns=("row", "rows")), rows)
        self.run.sink.flush()
        for batch in batches:
            section = Rows(result_section(rows, batch))
            for words in writer.text(section, 0, len(section)):
                self.run.host.write(words)
        self.run.sink.put(writer.end())
        self.run.sink.flush()

    def _answer(self, query: str) -> Generator[pa.Schema | pa.RecordBatch, None, None]:
        """The schema of the result, if it has one, and its rows.

        A thread waits for DuckDB, so that Ctrl+C reaches Python. Closing the iterator interrupts
        the query.
        """
        made: Queue[Any] = Queue(AHEAD)
        done, is_over = Event(), False

        def work() -> None:
            _run(self.connection, query, made)
            done.set()

        worker = Thread(target=work, daemon=True)
        with _told_in_one_line(query):
            try:
                worker.start()  # here, because Ctrl+C may come when it has just begun
                while not is_over:
                    item = made.get()
                    is_over = item is None or isinstance(item, BaseException)
                    if isinstance(item, BaseException):
                        raise item
                    if item is not None:
                        yield item
            finally:
                self._so_far.stopped.set()
                while not done.wait(0.05) and worker.ident is not None:
                    if not is_over:
                        self.connection.interrupt()
                    with suppress(Empty):
                        made.get_nowait()

    def _tell(self) -> None:
        """Report what could not be read, and damage."""
        for words in self._so_far.unread:
            self.run.complain(words)
        if damaged := self._so_far.damaged:
            self.run.host.reached(ExitCode.FINDINGS)
            errors = count(sum(damaged.values()), "error")
            words = f"{errors} in {count(len(damaged), 'file')}, {name_text(next(iter(damaged)))}"
            more = ", …" if len(damaged) > 1 else ""
            self.run.sink.note(
                f"kfmt: {words}{more}: only readable rows are returned; see the table findings\n"
            )

    def close(self) -> None:
        """Forget the tables."""
        self.connection.close()


def _run(connection: Any, query: str, made: Queue[Any]) -> None:
    """Put the schema and the batches of a result into a queue, then None; or an error."""
    try:
        relation = connection.sql(query)
        if relation is not None:
            reader = relation.to_arrow_reader(AT_ONCE)
            made.put(reader.schema)
            n_rows = 0
            for batch in reader:
                made.put(batch)
                n_rows += len(batch)
            if not n_rows:  # a heading has the columns of a result without rows
                made.put(pa.RecordBatch.from_pylist([], schema=reader.schema))
        made.put(None)
    except BaseException as error:
        made.put(error)


@contextmanager
def _told_in_one_line(query: str) -> Iterator[None]:
    """Turn DuckDB's errors into a line; raises UsageError for mistakes in a query."""
    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise KfmtError(_one_line(str(error))) from None
    except (duckdb.Error, RuntimeError) as error:
        words = _one_line(str(error))
        if words.startswith("Parser Error") and _OFFSET.search(query):
            words += "; the column offset needs double quotes, as it is a keyword"
        raise UsageError(words) from None


def _one_line(words: str) -> str:
    """DuckDB's message in a line, with the place that it marks below the query."""
    found = _PLACE.search(words)
    place = ""
    if found is not None:
        column = len(found[3]) - len(f"LINE {found[1]}: ") + 1
        place = f" (line {found[1]}"
        place += ")" if found[2].startswith("...") else f", column {column})"
        words = words[: found.start()]
    words = words.partition("\n\nPlease try installing")[0]
    lines = [line.strip().rstrip("!.") for line in words.splitlines() if line.strip()]
    return "; ".join(lines) + place
