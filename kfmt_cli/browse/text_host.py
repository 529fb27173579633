"""Run commands and capture their output as text, as on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console
from rich.text import Text

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.python.command_result import NullHost
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.render.sinks.sink import DisplayOptions
from kfmt_cli.render.sinks.table import TableSink
from kfmt_cli.render.start_lines import NextStep, command_prices
from kfmt_cli.render.style import COLOUR_THEME, Theme, escape_unprintable

_WRAPPING_CONSOLE = Console(width=80, file=StringIO())
MAX_OUTPUT_BYTES = 4 << 20  # bytes of output to capture


@dataclass
class CapturingHost(NullHost):
    """A host that captures both output streams in one text."""

    theme: Theme = COLOUR_THEME
    err_theme: Theme = COLOUR_THEME
    is_cancelled: Callable[[], bool] = lambda: False
    """Returns True once the output is no longer needed."""
    output_chunks: list[bytes] = field(default_factory=list)
    output_bytes: int = 0

    def __post_init__(self) -> None:
        self.err_width = self.width  # notes go into the same text

    def write(self, data: bytes | memoryview) -> None:
        """Capture output; raises OutputClosed once there is too much or `is_cancelled` returns
        True."""
        self.output_chunks.append(bytes(data))
        self.output_bytes += len(data)
        if self.is_cancelled() or self.output_bytes > MAX_OUTPUT_BYTES:
            raise OutputClosed(self.exit_code)

    def write_text(self, text: str) -> None:
        """Capture text."""
        if text:
            self.write(text.encode("utf-8", "backslashreplace"))

    write_error = write_text

    def on_progress(self, n_bytes: int) -> None:
        """Ignore progress; raises OutputClosed once `is_cancelled` returns True."""
        del n_bytes
        if self.is_cancelled():
            raise OutputClosed(self.exit_code)

    @property
    def output(self) -> str:
        """The captured output as text."""
        return b"".join(self.output_chunks).decode("utf-8", "replace")


def wrap_lines(text: str, width: int) -> list[Text | str]:
    """Split text with escape sequences into lines; lines wider than `width` are wrapped."""
    lines: list[Text | str] = []
    for line in Text.from_ansi(text).split("\n"):
        if line.cell_len <= width:
            lines.append(line)
            continue
        indent_columns = min(len(line.plain) - len(line.plain.lstrip()), width // 2)
        wrapped_lines = line.wrap(_WRAPPING_CONSOLE, width - indent_columns, overflow="fold")
        lines += [
            Text(" " * indent_columns if i else "").append_text(chunk)
            for i, chunk in enumerate(wrapped_lines)
        ]
    return lines


class _ScreenSink(TableSink):
    """Tables of a screen. step_commands: receives the commands of the plan."""

    def __init__(
        self, host: CapturingHost, shows_findings: bool, step_commands: list[str] | None
    ) -> None:
        super().__init__(host, DisplayOptions(shows_findings=shows_findings))
        self._step_commands = [] if step_commands is None else step_commands

    def add_next_steps(self, steps: Sequence[NextStep]) -> None:
        self._step_commands += (
            command for command in command_prices(steps) if not command.startswith("#")
        )
        super().add_next_steps(steps)


def capture_output(
    command: Callable[[CommandRun], object],
    width: int,
    *,
    shows_findings: bool = False,
    is_cancelled: Callable[[], bool] = lambda: False,
    step_commands: list[str] | None = None,
) -> str:
    """The output of a command on a screen of this width, coloured with escape sequences.
    shows_findings: whether findings are the command's main output. is_cancelled: returns True to
    cancel. step_commands: receives the commands of the plan."""
    host = CapturingHost(width=width, is_cancelled=is_cancelled)
    run = CommandRun(host, _ScreenSink(host, shows_findings, step_commands))
    try:
        command(run)
        run.sink.flush_texts()
    except OutputClosed:
        if not is_cancelled():
            host.output_chunks.append("… run the command above to see the rest\n".encode())
    except KfmtError as error:
        host.output_chunks.append(f"{escape_unprintable(str(error))}\n".encode())
    return host.output
