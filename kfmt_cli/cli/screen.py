"""The standard streams; the only place that checks whether one is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kfmt_cli.core.native.compiled import interpreted, stale
from kfmt_cli.errors import NO_OUTPUT, ExitCode, OutputClosed, OutputError
from kfmt_cli.render.style import COLOUR, PLAIN, Theme

PATIENCE = 1.0  # seconds of work before a progress bar appears
MUCH = 256 << 20  # bytes for which a progress bar appears at once

# Bytes from which onward interpreted modules are noticeably slow.
LARGE = 8 << 20
SLOW = (
    "kfmt: running in slow mode, many times slower: there was no C compiler when kfmt was "
    "installed. Install one and reinstall kfmt, or install a prebuilt wheel\n"
)


class Screen:
    """The output of a command. color: auto, always or never.

    goes_on: the command does more than print; drop output once standard output is closed.
    exit_code: the command's exit code so far, also used if the output is closed.
    """

    def __init__(self, color: str = "auto", goes_on: bool = False) -> None:
        self._goes_on = goes_on
        self.exit_code = ExitCode.CLEAN
        if sys.stdout is None:
            raise OutputError(NO_OUTPUT)
        self.out_is_terminal = sys.stdout.isatty()
        self.err_is_terminal = sys.stderr.isatty()
        self.theme = self._theme(color, self.out_is_terminal)
        self.err_theme = self._theme(color, self.err_is_terminal)
        self._expected = 0
        if words := stale():
            self.note(f"kfmt: {words}\n")

    @staticmethod
    def _theme(color: str, terminal: bool) -> Theme:
        if color == "auto":
            plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
            return COLOUR if terminal and not plain else PLAIN
        return COLOUR if color == "always" else PLAIN

    @property
    def width(self) -> int | None:
        """Terminal width for rows, in columns; None if standard output is not a terminal."""
        return _columns() if self.out_is_terminal else None

    @property
    def err_width(self) -> int | None:
        """Terminal width of standard error, in columns; None if it is not a terminal."""
        return _columns() if self.err_is_terminal else None

    def reached(self, exit_code: ExitCode) -> None:
        """Raise the exit code to this one, unless it is already higher."""
        self.exit_code = max(self.exit_code, exit_code)

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes to standard output immediately; raises OutputClosed, OutputError."""
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(sys.stdout.fileno(), view) :]
        except BrokenPipeError:
            if self._goes_on:
                return
            # click would turn the plain error into its own exit code.
            raise OutputClosed(self.exit_code) from None
        except OSError as error:
            raise OutputError(f"cannot write output: {error.strerror}") from error

    def text(self, words: str) -> None:
        """Write text to standard output."""
        if words:
            self.write(words.encode("utf-8", "backslashreplace"))

    def note(self, words: str) -> None:
        """Write text to standard error, if it is open; the output does not need it."""
        if sys.stderr is not None:
            with suppress(OSError, ValueError):
                sys.stderr.write(words)
                sys.stderr.flush()

    def expect(self, n_bytes: int) -> None:
        """Count bytes that will be read; notes slow mode once they are many."""
        before = self._expected
        self._expected += n_bytes
        if before <= LARGE < self._expected and interpreted():
            self.note(SLOW)

    @contextmanager
    def progress(self, total: int | None, *, beside_rows: bool = False) -> Iterator[ProgressBar]:
        """A progress bar for `total` bytes on standard error, if it is a terminal and work is long.

        total: None or 0 for a stream of unknown length. beside_rows: rows are written at the same
        time; if they go to a terminal, there is no bar.
        """
        self.expect(total or 0)
        wanted = self.err_is_terminal and not (beside_rows and self.out_is_terminal)
        progress = ProgressBar(total, wanted, self.expect)
        progress.advance(0)
        try:
            yield progress
        finally:
            progress.stop()


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


class ProgressBar:
    """A progress bar that appears only after a while."""

    def __init__(self, total: int | None, wanted: bool, expect: Callable[[int], None]) -> None:
        self._total = total
        self._wanted = wanted
        self._expect = expect
        self._done = 0
        self._since = time.monotonic()
        self._bar: object | None = None

    def advance(self, n_bytes: int) -> None:
        """Report that `n_bytes` more are done."""
        self._done += n_bytes
        if not self._total:
            self._expect(n_bytes)
        is_soon = (self._total or 0) < MUCH and time.monotonic() - self._since < PATIENCE
        if not self._wanted or is_soon:
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        if self._bar is None:
            console = Console(stderr=True)
            self._bar = bar = Progress(
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(compact=True),
                console=console,
                transient=True,
            )
            bar.start()
            bar.add_task("", total=self._total)
        assert isinstance(self._bar, Progress)
        self._bar.update(
            self._bar.task_ids[0], completed=min(self._done, self._total or self._done)
        )

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()  # type: ignore[attr-defined]
            self._bar = None
