"""Commands whose output is kept as text, as they show it on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console
from rich.text import Text

from kfmt_cli.commands.python.python_answer import Nobody
from kfmt_cli.commands.run import Run
from kfmt_cli.errors import KfmtError, OutputClosed
from kfmt_cli.render.sinks.sink import Look
from kfmt_cli.render.sinks.table import TableSink
from kfmt_cli.render.style import COLOUR, Theme, safe

_CONSOLE = Console(width=80, file=StringIO())
MOST_TEXT = 4 << 20  # bytes of output to keep


@dataclass
class TextHost(Nobody):
    """A host whose two streams form one text."""

    theme: Theme = COLOUR
    err_theme: Theme = COLOUR
    stop: Callable[[], bool] = lambda: False
    """Returns True once the output is no longer wanted."""
    pieces: list[bytes] = field(default_factory=list)
    n_bytes: int = 0

    def __post_init__(self) -> None:
        self.err_width = self.width  # notes go into the same text

    def write(self, data: bytes | memoryview) -> None:
        """Keep some output; raises OutputClosed once there is too much or `stop` returns True."""
        self.pieces.append(bytes(data))
        self.n_bytes += len(data)
        if self.stop() or self.n_bytes > MOST_TEXT:
            raise OutputClosed(self.exit_code)

    def text(self, words: str) -> None:
        """Keep some text."""
        if words:
            self.write(words.encode("utf-8", "backslashreplace"))

    note = text

    def advance(self, n_bytes: int) -> None:
        """Ignore bytes that were read; raises OutputClosed once `stop` returns True."""
        del n_bytes
        if self.stop():
            raise OutputClosed(self.exit_code)

    @property
    def output(self) -> str:
        """The whole output."""
        return b"".join(self.pieces).decode("utf-8", "replace")


def wrapped_lines(shown: str, width: int) -> list[Text | str]:
    """Split text with escape sequences into lines; lines wider than `width` are wrapped."""
    lines: list[Text | str] = []
    for line in Text.from_ansi(shown).split("\n"):
        if line.cell_len <= width:
            lines.append(line)
            continue
        margin = min(len(line.plain) - len(line.plain.lstrip()), width // 2)
        pieces = line.wrap(_CONSOLE, width - margin, overflow="fold")
        lines += [
            Text(" " * margin if n else "").append_text(piece) for n, piece in enumerate(pieces)
        ]
    return lines


def shown_by(
    command: Callable[[Run], object],
    width: int,
    *,
    finds: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> str:
    """The output of a command on a screen of this width, coloured with escape sequences. finds:
    whether findings are its main output. stop: returns True to cancel."""
    host = TextHost(width=width, stop=stop)
    run = Run(host, TableSink(host, Look(finds=finds)))
    try:
        command(run)
        run.sink.flush()
    except OutputClosed:
        if not stop():
            host.pieces.append("… run the command above to see the rest\n".encode())
    except KfmtError as error:
        host.pieces.append(f"{safe(str(error))}\n".encode())
    return host.output
