"""Commands whose output is kept as text: what they show on a terminal, on a screen of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from kfmt_cli.commands.run import Progress, Run
from kfmt_cli.errors import ExitCode, KfmtError, OutputClosed
from kfmt_cli.render.sinks.sink import Look
from kfmt_cli.render.sinks.table import TableSink
from kfmt_cli.render.style import COLOUR, Theme, safe

if TYPE_CHECKING:
    from kfmt_cli.rows.result import ResultType

_CONSOLE = Console(width=80, file=StringIO())
MOST_TEXT = 4 << 20  # bytes of output that are kept


@dataclass
class TextHost:
    """A host whose two streams are one text."""

    width: int | None = None
    theme: Theme = COLOUR
    err_theme: Theme = COLOUR
    exit_code: ExitCode = ExitCode.CLEAN
    stop: Callable[[], bool] = lambda: False
    """Whether nobody waits for the output any more."""
    pieces: list[bytes] = field(default_factory=list)
    n_bytes: int = 0
    done: int = 0
    """Bytes of the inputs that were read."""
    total: int = 0

    @property
    def err_width(self) -> int | None:
        """The columns of notes, which are in the same text."""
        return self.width

    def write(self, data: bytes | memoryview) -> None:
        """Keep some output; raises OutputClosed when it is enough."""
        self.pieces.append(bytes(data))
        self.n_bytes += len(data)
        if self.stop() or self.n_bytes > MOST_TEXT:
            raise OutputClosed(self.exit_code)

    def text(self, words: str) -> None:
        """Keep some words."""
        if words:
            self.write(words.encode("utf-8", "backslashreplace"))

    def note(self, words: str) -> None:
        """Keep what is for standard error."""
        self.text(words)

    def reached(self, exit_code: ExitCode) -> None:
        """Something was seen that ends the command with this code, or a higher one."""
        self.exit_code = max(self.exit_code, exit_code)

    def expect(self, n_bytes: int) -> None:
        """Bytes are to be read."""

    @contextmanager
    def progress(self, total: int | None, *, beside_rows: bool = False) -> Iterator[Progress]:
        """Count the bytes that are read."""
        del beside_rows
        self.total = total or 0
        yield self

    def advance(self, n_bytes: int) -> None:
        """That many bytes more are done; raises OutputClosed when nobody waits."""
        self.done += n_bytes
        if self.stop():
            raise OutputClosed(self.exit_code)

    @property
    def output(self) -> str:
        """All that was written."""
        return b"".join(self.pieces).decode("utf-8", "replace")


def wrapped_lines(shown: str, width: int) -> list[Text | str]:
    """Text with escape sequences in lines; those that are wider than a width take several."""
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
    type_: ResultType | None = None,
    finds: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> str:
    """What a command shows on a screen of a width, with escape sequences for its colours.

    type_: of the results that it gives. finds: findings are what it is asked for. stop: whether
    nobody waits any more.
    """
    host = TextHost(width, stop=stop)
    run = Run(host, TableSink(host, Look(finds=finds)), type_)
    try:
        command(run)
        run.sink.flush()
    except OutputClosed:
        if not stop():
            host.pieces.append("… run the command above to see the rest\n".encode())
    except KfmtError as error:
        host.pieces.append(f"{safe(str(error))}\n".encode())
    return host.output
