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
FIRST, MORE = "sql> ", "  -> "
ENDLESS = "select a.range from range(10000000) a, range(1000000) b where a.range * b.range = -1;"


# Interrupts each prompt when it is shown but waits for no key yet: from C, so that Python does not
# look at the signal meanwhile.
EARLY = """
import ctypes, functools, readline, signal, sys
from kfmt_cli.__main__ import main
pressed = functools.partial(getattr(ctypes.CDLL(None), "raise"), signal.SIGINT)
readline.set_pre_input_hook(pressed)
main()
"""


class Terminal:
    """kfmt at a prompt. by: what is run instead of kfmt."""

    def __init__(self, *paths: str | Path, by: str | None = None) -> None:
        self._screen, its = pty.openpty()
        env = environment(TERM="dumb", INPUTRC="/dev/null")
        self.running: warm.Running | subprocess.Popen[bytes]
        if by is None:
            self.running = warm.start(
                ["sql", *paths], cwd=ROOT, env=env, stdin=its, stdout=its, stderr=its
            )
        else:
            command = [sys.executable, "-c", by, "sql", *paths]
            self.running = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=its, stdout=its, stderr=its
            )
        os.close(its)
        self.until(FIRST)

    def until(self, words: str) -> str:
        """What is shown up to some words."""
        shown = ""
        while words not in shown:
            shown += os.read(self._screen, 1).decode(errors="replace")
        return shown.replace("\r\n", "\n")

    def say(self, line: str, then: str = FIRST) -> str:
        """Type a line; what is shown below it up to the next prompt."""
        os.write(self._screen, f"{line}\n".encode())
        self.until("\n")
        return self.until(then).removesuffix(then)

    def press(self, key: bytes) -> None:
        os.write(self._screen, key)

    def end(self) -> int:
        """Ctrl+D; the exit code."""
        self.press(b"\x04")
        return self.running.wait(60)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(BROKER)
    yield made
    made.end()


def test_a_session(terminal: Terminal) -> None:
    assert "records" in terminal.say(".tables")
    assert "last_offset" in terminal.say(".schema batches")
    assert "no such command: .help" in terminal.say(".help")
    assert terminal.say("select 'a;", MORE) == ""
    assert "a;\\nb" in terminal.say("b' as text;")
    mistake = terminal.say("select nothing from records;")
    assert mistake.startswith("kfmt: Binder Error")
    assert mistake.count("\n") == 1
    assert terminal.say("") == ""
    shown = terminal.say("select count(*) as n from records where topic = 'orders';")
    assert shown.strip("\n").splitlines() == ["    n", " 1500", "1 row shown"]
    assert terminal.end() == 0


def test_ctrl_c_cancels_a_query(terminal: Terminal) -> None:
    os.write(terminal._screen, f"select 41 + 1 as before; {ENDLESS}\n".encode())
    terminal.until("1 row shown")
    terminal.running.send_signal(signal.SIGINT)
    terminal.until(FIRST)
    assert " 7\n" in terminal.say("select 7 as n;")
    assert terminal.end() == 0


def test_quit(terminal: Terminal) -> None:
    terminal.press(b".quit\n")
    assert terminal.running.wait(60) == 0


@pytest.mark.timeout(60)
def test_ctrl_c_at_a_prompt_that_does_not_wait_yet() -> None:
    early = Terminal(BROKER, by=EARLY)
    try:
        for _ in range(2):
            early.until(FIRST)  # without a key
    finally:
        early.running.send_signal(signal.SIGKILL)
        early.running.wait(60)
