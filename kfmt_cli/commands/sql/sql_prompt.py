"""The prompt of `kfmt sql`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from kfmt_cli.errors import (
    NO_INPUT_MESSAGE,
    InputError,
    KfmtError,
    OutputClosed,
    unknown_name_question,
)
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.table_types import TABLES

if TYPE_CHECKING:
    from kfmt_cli.commands.sql.sql_session import SqlSession

FIRST_PROMPT, CONTINUATION_PROMPT = "sql> ", "  -> "
SIGNAL_DELAY_SECONDS = 0.1  # seconds until Python should have seen an interrupt
PROMPT_HELP = (
    "Statements end with ; – .help, .tables, .schema NAME and .quit are commands, Ctrl+D leaves."
)


@dataclass(slots=True)
class SqlPrompt:
    """Reads statements and commands until the end of the input."""

    session: SqlSession
    is_terminal: bool = field(default_factory=lambda: sys.stdin is not None and sys.stdin.isatty())
    _incomplete_statement: str = ""
    """The lines of the incomplete statement."""

    def run(self) -> None:
        """Run each statement. Without a terminal, a mistake ends the session: raises UsageError,
        InputError."""
        if sys.stdin is None:
            raise InputError(NO_INPUT_MESSAGE)
        if self.is_terminal:
            with suppress(ImportError):
                import readline  # noqa: F401 (input uses it)
            self.session.run.sink.write_to_stderr(f"{PROMPT_HELP}\n")
        with _enable_immediate_interrupts() if self.is_terminal else nullcontext():
            self._read_statements()

    def _read_statements(self) -> None:
        while True:
            try:
                line = self._read_line()
                if line is None or not self._handle_line(line):
                    return
            except KeyboardInterrupt:
                if not self.is_terminal:
                    raise
                self._incomplete_statement = ""
                self.session.run.sink.write_to_stderr("\n")

    def _read_line(self) -> str | None:
        """The next line; None at the end of the input, after running an incomplete statement."""
        try:
            return input(
                (CONTINUATION_PROMPT if self._incomplete_statement else FIRST_PROMPT)
                if self.is_terminal
                else ""
            )
        except EOFError:
            if self.is_terminal:
                self.session.run.sink.write_to_stderr("\n")
            elif self._incomplete_statement.strip():
                self._run_buffered_statement()
            return None

    def _handle_line(self, line: str) -> bool:
        """Handle a line; returns whether to continue."""
        if not self._incomplete_statement and line.strip().startswith("."):
            return self._run_command(*line.strip().rstrip(";").split())
        self._incomplete_statement += f"{line}\n"
        if not self._incomplete_statement.strip():
            self._incomplete_statement = ""
        elif self._is_statement_complete():
            self._run_buffered_statement()
        return True

    def _is_statement_complete(self) -> bool:
        """Whether the statement is complete: it ends with ; outside of strings and comments."""
        if not self._incomplete_statement.rstrip().endswith(";"):
            return False
        import duckdb

        try:
            self.session.connection.extract_statements(self._incomplete_statement)
        except duckdb.Error as error:
            # What follows the reason quotes the statement.
            return "unterminated" not in str(error).partition("\n")[0]
        return True

    def _run_buffered_statement(self) -> None:
        statement, self._incomplete_statement = self._incomplete_statement, ""
        self._run_statements(statement)

    def _run_statements(self, sql_text: str) -> None:
        """Run statements; on a terminal, reports a mistake and continues."""
        try:
            self.session.run_statements(sql_text)
        except OutputClosed:
            raise
        except KfmtError as error:
            if not self.is_terminal:
                raise
            self._report_error(str(error))

    def _report_error(self, message: str) -> None:
        self.session.run.sink.write_to_stderr(f"kfmt: {escape_unprintable(message)}\n")

    def _run_command(self, command_name: str, *arguments: str) -> bool:
        """Run a command; returns whether to continue."""
        if command_name in (".quit", ".exit"):
            return False
        if command_name == ".help":
            self.session.run.sink.write_to_stderr(f"{PROMPT_HELP}\n")
        elif command_name == ".tables":
            self._run_statements("show tables")
        elif command_name == ".schema":
            for table_name in arguments or TABLES:
                quoted_name = table_name.replace('"', '""')
                self._run_statements(f'describe "{quoted_name}"')
        else:
            known_names = (".help", ".tables", ".schema", ".quit")
            question = unknown_name_question(command_name, known_names)
            self._report_error(
                f"no such command: {command_name}; choose from .help, .tables, .schema NAME, "
                f".quit{question}"
            )
        return True


@contextmanager
def _enable_immediate_interrupts() -> Iterator[None]:
    """Make Ctrl+C interrupt input() even if it arrives just before readline waits for keys, which
    would otherwise notice it only at the next key. A thread repeats signals Python has not seen."""
    handled_event, main_thread_id = threading.Event(), threading.main_thread().ident or 0
    wakeup_read_fd, wakeup_write_fd = os.pipe()
    os.set_blocking(wakeup_write_fd, False)

    def handle_signal(signal_number: int, frame: FrameType | None) -> None:
        handled_event.set()
        signal.default_int_handler(signal_number, frame)

    def repeat_unseen_signals() -> None:
        while signal_bytes := os.read(wakeup_read_fd, 1):
            if signal_bytes[0] == signal.SIGINT:
                while not handled_event.wait(SIGNAL_DELAY_SECONDS):
                    signal.pthread_kill(main_thread_id, signal.SIGURG)  # does nothing else
                handled_event.clear()

    previous_handlers = {
        signal.SIGINT: signal.signal(signal.SIGINT, handle_signal),
        signal.SIGURG: signal.signal(signal.SIGURG, lambda *_: None),
    }
    previous_wakeup_fd = signal.set_wakeup_fd(wakeup_write_fd)
    watcher_thread = threading.Thread(target=repeat_unseen_signals, daemon=True)
    watcher_thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_wakeup_fd)
        for signal_number, handler in previous_handlers.items():
            signal.signal(signal_number, handler)
        os.close(wakeup_write_fd)
        handled_event.set()
        watcher_thread.join()
        os.close(wakeup_read_fd)
