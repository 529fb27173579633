"""The standard streams; the only place that checks whether one is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kfmt_cli.core.native.build_state import interpreted_modules, stale_message
from kfmt_cli.errors import NO_OUTPUT_MESSAGE, ExitCode, OutputClosed, OutputError
from kfmt_cli.render.style import COLOUR_THEME, NO_COLOUR, Theme

PROGRESS_DELAY_SECONDS = 1.0  # before a progress bar appears
MIN_PROGRESS_BYTES = 256 << 20  # from which a progress bar appears at once

# From this size onward, interpreted modules are noticeably slow.
SLOW_MODE_BYTES = 8 << 20
SLOW_MODE_MESSAGE = (
    "kfmt: running in slow mode, many times slower: there was no C compiler when kfmt was "
    "installed. Install one and reinstall kfmt, or install a prebuilt wheel\n"
)


class CommandOutput:
    """The output of a command. color: auto, always or never.

    ignores_closed_output: drop further output once standard output is closed, because the command
    does more than print. output_fd: the descriptor of a file to write instead of standard output.
    ignores_findings: exit with 0 if there are findings. The attribute `exit_code` is the command's
    exit code so far, also used if the output is closed.
    """

    def __init__(
        self,
        color: str = "auto",
        ignores_closed_output: bool = False,
        *,
        output_fd: int | None = None,
        ignores_findings: bool = False,
    ) -> None:
        self._ignores_closed_output = ignores_closed_output
        self._ignores_findings = ignores_findings
        self.exit_code = ExitCode.CLEAN
        if sys.stdout is None and output_fd is None:
            raise OutputError(NO_OUTPUT_MESSAGE)
        self._output_fd = output_fd
        self.is_stdout_terminal = output_fd is None and sys.stdout.isatty()
        self.is_stderr_terminal = sys.stderr.isatty()
        self.theme = self._select_theme(color, self.is_stdout_terminal)
        self.err_theme = self._select_theme(color, self.is_stderr_terminal)
        self._expected_bytes = 0
        if message := stale_message():
            self.write_error(f"kfmt: {message}\n")

    @staticmethod
    def _select_theme(color: str, is_terminal: bool) -> Theme:
        if color == "auto":
            is_colour_disabled = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
            return COLOUR_THEME if is_terminal and not is_colour_disabled else NO_COLOUR
        return COLOUR_THEME if color == "always" else NO_COLOUR

    @property
    def width(self) -> int | None:
        """Terminal width for rows, in columns; None if standard output is not a terminal."""
        return _terminal_columns() if self.is_stdout_terminal else None

    @property
    def err_width(self) -> int | None:
        """Terminal width of standard error, in columns; None if it is not a terminal."""
        return _terminal_columns() if self.is_stderr_terminal else None

    def raise_exit_code(self, exit_code: ExitCode) -> None:
        """Raise the exit code to this one, unless it is already higher."""
        if not (self._ignores_findings and exit_code is ExitCode.FINDINGS):
            self.exit_code = max(self.exit_code, exit_code)

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes to the output immediately; raises OutputClosed, OutputError."""
        try:
            output_fd = sys.stdout.fileno() if self._output_fd is None else self._output_fd
            unwritten_bytes = memoryview(data)
            while unwritten_bytes:
                unwritten_bytes = unwritten_bytes[os.write(output_fd, unwritten_bytes) :]
        except BrokenPipeError:
            if self._ignores_closed_output:
                return
            # click would turn the plain error into its own exit code.
            raise OutputClosed(self.exit_code) from None
        except OSError as error:
            raise OutputError(f"cannot write output: {error.strerror}") from error

    def write_text(self, text: str) -> None:
        """Write text to standard output."""
        if text:
            self.write(text.encode("utf-8", "backslashreplace"))

    def write_error(self, text: str) -> None:
        """Write text to standard error, if it is open; the output does not need it."""
        if sys.stderr is not None:
            with suppress(OSError, ValueError):
                sys.stderr.write(text)
                sys.stderr.flush()

    def expect_bytes(self, n_bytes: int) -> None:
        """Count bytes that will be read; reports slow mode once they exceed `SLOW_MODE_BYTES`."""
        previous_bytes = self._expected_bytes
        self._expected_bytes += n_bytes
        if previous_bytes <= SLOW_MODE_BYTES < self._expected_bytes and interpreted_modules():
            self.write_error(SLOW_MODE_MESSAGE)

    @contextmanager
    def progress(self, total: int | None, *, with_rows: bool = False) -> Iterator[ProgressBar]:
        """A progress bar for `total` bytes on standard error, if it is a terminal and work is long.

        total: None or 0 for a stream of unknown length. with_rows: rows are written at the same
        time; if they go to a terminal, there is no bar.
        """
        self.expect_bytes(total or 0)
        is_enabled = self.is_stderr_terminal and not (with_rows and self.is_stdout_terminal)
        bar = ProgressBar(total, is_enabled, self.expect_bytes)
        bar.on_progress(0)
        try:
            yield bar
        finally:
            bar.stop()


def _terminal_columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


class ProgressBar:
    """A progress bar that appears only after a while."""

    def __init__(
        self, total_bytes: int | None, is_enabled: bool, expect_bytes: Callable[[int], None]
    ) -> None:
        self._total_bytes = total_bytes
        self._is_enabled = is_enabled
        self._expect_bytes = expect_bytes
        self._done_bytes = 0
        self._start_seconds = time.monotonic()
        self._rich_progress: object | None = None

    def on_progress(self, n_bytes: int) -> None:
        """Report that `n_bytes` more are done."""
        self._done_bytes += n_bytes
        if not self._total_bytes:
            self._expect_bytes(n_bytes)
        is_too_early = (
            self._total_bytes or 0
        ) < MIN_PROGRESS_BYTES and time.monotonic() - self._start_seconds < PROGRESS_DELAY_SECONDS
        if not self._is_enabled or is_too_early:
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        if self._rich_progress is None:
            console = Console(stderr=True)
            self._rich_progress = rich_progress = Progress(
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(compact=True),
                console=console,
                transient=True,
            )
            rich_progress.start()
            rich_progress.add_task("", total=self._total_bytes)
        assert isinstance(self._rich_progress, Progress)
        self._rich_progress.update(
            self._rich_progress.task_ids[0],
            completed=min(self._done_bytes, self._total_bytes or self._done_bytes),
        )

    def stop(self) -> None:
        """Remove the bar."""
        if self._rich_progress is not None:
            self._rich_progress.stop()  # type: ignore[attr-defined]
            self._rich_progress = None
