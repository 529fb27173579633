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
    """What a command shows on a terminal of so many columns, and its exit code.

    err: a descriptor that standard error goes to; to the same terminal without it.
    """
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    with Path(os.devnull).open("rb") as nothing:
        running = warm.start(
            arguments,
            cwd=ROOT,
            env=environment(TERM="xterm-256color", **env),
            stdin=nothing,
            stdout=terminal,
            stderr=terminal if err is None else err,
        )
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(screen, 1 << 16)
        except OSError:  # Linux: nobody has the other end any more
            break
        if not piece:
            break
        shown += piece
    code = running.wait()
    os.close(screen)
    return shown.decode(), code


def on_a_terminal(*arguments: str | Path, columns: int = 80, **env: str) -> str:
    """What a command shows on a terminal of so many columns."""
    return _run(arguments, columns, env)[0]


def parted(*arguments: str | Path, columns: int, **env: str) -> tuple[str, str, int]:
    """What a command shows on a terminal, what it writes to a standard error that is none, and its
    exit code."""
    with tempfile.TemporaryFile() as err:
        shown, code = _run(arguments, columns, env, err.fileno())
        err.seek(0)
        return shown.replace("\r\n", "\n"), err.read().decode(), code
