"""kfmt on a terminal, in a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import warm
from tests.support.samples import environment
from tools.kafka import ROOT

ROWS = 50


def _run(
    arguments: Sequence[str | Path], columns: int, env: Mapping[str, str], err: int | None = None
) -> tuple[str, int]:
    """A command's output on a terminal of so many columns, and its exit code.

    err: a descriptor for standard error, by default the same terminal.
    """
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    with Path(os.devnull).open("rb") as devnull:
        running = warm.start(
            arguments,
            cwd=ROOT,
            env=environment(TERM="xterm-256color", **env),
            stdin=devnull,
            stdout=terminal,
            stderr=terminal if err is None else err,
        )
    os.close(terminal)
    output = b""
    while True:
        try:
            chunk = os.read(screen, 1 << 16)
        except OSError:  # Linux: the other end is closed
            break
        if not chunk:
            break
        output += chunk
    code = running.wait()
    os.close(screen)
    return output.decode(), code


def run_on_terminal(*arguments: str | Path, columns: int = 80, **env: str) -> str:
    """A command's output on a terminal of so many columns."""
    return _run(arguments, columns, env)[0]


def run_with_separate_stderr(
    *arguments: str | Path, columns: int, **env: str
) -> tuple[str, str, int]:
    """A command's output on a terminal, its standard error that is not a terminal, and its exit
    code."""
    with tempfile.TemporaryFile() as stderr_file:
        output, code = _run(arguments, columns, env, stderr_file.fileno())
        stderr_file.seek(0)
        return output.replace("\r\n", "\n"), stderr_file.read().decode(), code
