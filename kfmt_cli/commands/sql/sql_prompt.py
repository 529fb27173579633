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

from kfmt_cli.errors import NO_INPUT, InputError, KfmtError, OutputClosed
from kfmt_cli.render.style import safe
from kfmt_cli.rows.table_types import TABLES

if TYPE_CHECKING:
    from kfmt_cli.commands.sql.command import SqlSession

FIRST, MORE = "sql> ", "  -> "
PATIENCE = 0.1  # seconds until Python should have seen an interrupt
HELP = "Statements end with ; – .tables, .schema NAME and .quit are commands, Ctrl+D leaves."


@dataclass(slots=True)
class Prompt:
    """Reads statements and commands until the end of the input."""

    session: SqlSession
    is_terminal: bool = field(default_factory=lambda: sys.stdin is not None and sys.stdin.isatty())
    _text: str = ""
    """The statement so far."""

    def run(self) -> None:
        """Answer each statement. A mistake ends a session without a terminal: raises UsageError,
        InputError."""
        if sys.stdin is None:
            raise InputError(NO_INPUT)
        if self.is_terminal:
            with suppress(ImportError):
                import readline  # noqa: F401 (input uses it)
            self.session.run.sink.note(f"{HELP}\n")
        with _prompt_interrupts() if self.is_terminal else nullcontext():
            self._loop()

    def _loop(self) -> None:
        while True:
            try:
                line = self._line()
                if line is None or not self._take(line):
                    return
            except KeyboardInterrupt:
                if not self.is_terminal:
                    raise
                self._text = ""
                self.session.run.sink.note("\n")

    def _line(self) -> str | None:
        """The next line; None at the end of the input, after an unfinished statement."""
        try:
            return input((MORE if self._text else FIRST) if self.is_terminal else "")
        except EOFError:
            if self.is_terminal:
                self.session.run.sink.note("\n")
            elif self._text.strip():
                self._ask()
            return None

    def _take(self, line: str) -> bool:
        """Take a line; whether to go on."""
        if not self._text and line.strip().startswith("."):
            return self._command(*line.strip().rstrip(";").split())
        self._text += f"{line}\n"
        if not self._text.strip():
            self._text = ""
        elif self._is_whole():
            self._ask()
        return True

    def _is_whole(self) -> bool:
        """Whether the statement ends here: with ; outside of text and comments."""
        if not self._text.rstrip().endswith(";"):
            return False
        import duckdb

        try:
            self.session.connection.extract_statements(self._text)
        except duckdb.Error as error:
            return "unterminated" not in str(error)
        return True

    def _ask(self) -> None:
        text, self._text = self._text, ""
        self._answer(text)

    def _answer(self, text: str) -> None:
        """Run statements; on a terminal, a mistake is a line and does not end the session."""
        try:
            self.session.ask(text)
        except OutputClosed:
            raise
        except KfmtError as error:
            if not self.is_terminal:
                raise
            self._note(str(error))

    def _note(self, words: str) -> None:
        self.session.run.sink.note(f"kfmt: {safe(words)}\n")

    def _command(self, name: str, *words: str) -> bool:
        """Run a command; whether to go on."""
        if name in (".quit", ".exit"):
            return False
        if name == ".tables":
            self._answer("show tables")
        elif name == ".schema":
            for table in words or TABLES:
                quoted = table.replace('"', '""')
                self._answer(f'describe "{quoted}"')
        else:
            self._note(f"no such command: {name}; choose from .tables, .schema NAME, .quit")
        return True


@contextmanager
def _prompt_interrupts() -> Iterator[None]:
    """Make Ctrl+C end a wait for keys also if it comes just before it: readline would then see it
    with the next key only. A thread repeats a signal that Python has not seen."""
    seen, main_thread = threading.Event(), threading.main_thread().ident or 0
    wakes, woken = os.pipe()
    os.set_blocking(woken, False)

    def interrupt(number: int, frame: FrameType | None) -> None:
        seen.set()
        signal.default_int_handler(number, frame)

    def watch() -> None:
        while number := os.read(wakes, 1):
            if number[0] == signal.SIGINT:
                while not seen.wait(PATIENCE):
                    signal.pthread_kill(main_thread, signal.SIGURG)  # does nothing else
                seen.clear()

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, interrupt),
        signal.SIGURG: signal.signal(signal.SIGURG, lambda *_: None),
    }
    before_woken = signal.set_wakeup_fd(woken)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before_woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(woken)
        seen.set()
        watcher.join()
        os.close(wakes)
