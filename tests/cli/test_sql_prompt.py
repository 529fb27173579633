"""The prompt of `kfmt sql`, on a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.samples import environment
from tools.kafka import ROOT

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
BROKER = "sample_segments/kafka-3.9.1-broker1"
PROMPT, CONTINUATION = "sql> ", "  -> "
ENDLESS_QUERY = (
    "select a.range from range(10000000) a, range(1000000) b where a.range * b.range = -1;"
)


# Interrupts each prompt after it is shown and before it waits for a key: from C, so that Python
# does not handle the signal earlier.
EARLY_INTERRUPT = """
import ctypes, functools, readline, signal, sys
from kfmt_cli.__main__ import main
pressed = functools.partial(getattr(ctypes.CDLL(None), "raise"), signal.SIGINT)
readline.set_pre_input_hook(pressed)
main()
"""


class Terminal:
    """kfmt at a prompt.

    Args:
        paths: The arguments of `kfmt sql`.
        program: Python code to run in place of kfmt.
    """

    def __init__(self, *paths: str | Path, program: str | None = None) -> None:
        self._screen, terminal_fd = pty.openpty()
        variables = environment(TERM="dumb", INPUTRC="/dev/null")
        self.running: warm.Running | subprocess.Popen[bytes]
        if program is None:
            self.running = warm.start(
                ["sql", *paths],
                cwd=ROOT,
                env=variables,
                stdin=terminal_fd,
                stdout=terminal_fd,
                stderr=terminal_fd,
            )
        else:
            command = [sys.executable, "-c", program, "sql", *paths]
            self.running = subprocess.Popen(
                command,
                cwd=ROOT,
                env=variables,
                stdin=terminal_fd,
                stdout=terminal_fd,
                stderr=terminal_fd,
            )
        os.close(terminal_fd)
        self.read_until(PROMPT)

    def read_until(self, text: str) -> str:
        """The output up to a text."""
        output = ""
        while text not in output:
            output += os.read(self._screen, 1).decode(errors="replace")
        return output.replace("\r\n", "\n")

    def type_line(self, line: str, prompt: str = PROMPT) -> str:
        """Type a line and return the output up to the next prompt."""
        os.write(self._screen, f"{line}\n".encode())
        self.read_until("\n")
        return self.read_until(prompt).removesuffix(prompt)

    def press(self, key: bytes) -> None:
        os.write(self._screen, key)

    def end(self) -> int:
        """Press Ctrl+D and return the exit code."""
        self.press(b"\x04")
        return self.running.wait(60)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal(BROKER)
    yield opened
    opened.end()


def test_a_session(terminal: Terminal) -> None:
    assert "records" in terminal.type_line(".tables")
    assert "last_offset" in terminal.type_line(".schema batches")
    assert ".quit" in terminal.type_line(".help")
    assert "no such command: .nothing" in terminal.type_line(".nothing")
    assert terminal.type_line("select 'a;", CONTINUATION) == ""
    assert "a;\\nb" in terminal.type_line("b' as text;")
    error = terminal.type_line("select nothing from records;")
    assert error.startswith("kfmt: Binder Error")
    assert error.count("\n") == 1
    assert terminal.type_line("") == ""
    output = terminal.type_line("select count(*) as n from records where topic = 'orders';")
    assert output.strip("\n").splitlines() == ["    n", " 1500", "1 row shown"]
    assert terminal.end() == 0


def test_ctrl_c_cancels_a_query(terminal: Terminal) -> None:
    os.write(terminal._screen, f"select 41 + 1 as before; {ENDLESS_QUERY}\n".encode())
    terminal.read_until("1 row shown")
    terminal.running.send_signal(signal.SIGINT)
    terminal.read_until(PROMPT)
    assert " 7\n" in terminal.type_line("select 7 as n;")
    assert terminal.end() == 0


def test_quit(terminal: Terminal) -> None:
    terminal.press(b".quit\n")
    assert terminal.running.wait(60) == 0


@pytest.mark.timeout(60)
def test_ctrl_c_at_a_prompt_that_does_not_wait_yet() -> None:
    interrupted = Terminal(BROKER, program=EARLY_INTERRUPT)
    try:
        for _ in range(2):
            interrupted.read_until(PROMPT)  # without a key
    finally:
        interrupted.running.send_signal(signal.SIGKILL)
        interrupted.running.wait(60)
