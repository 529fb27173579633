"""When Spark is started: beside what comes first, and not for what fails at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.waiting import wait_for

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.errors import InputError
from kfmt_cli.spark import session as sessions
from kfmt_cli.spark import tasks


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The masters of the sessions that were begun and ended; none is a real one."""
    masters = list[str]()

    @contextmanager
    def nothing(_: str, master: str, *__: Any) -> Iterator[str]:
        masters.append(f"begun {master}")
        yield "a context"
        masters.append(f"ended {master}")

    monkeypatch.setattr(sessions, "_start_own_jvm", nothing)
    monkeypatch.setattr(sessions, "START_DELAY_SECONDS", 3600.0)
    return masters


def test_what_fails_at_once_does_not_start_it(begun: list[str]) -> None:
    with pytest.raises(InputError, match="no such file"), sessions.start_session("local[1]"):
        raise InputError("no such file")
    assert begun == []


def test_who_asks_for_it_does_not_wait_longer(begun: list[str]) -> None:
    with sessions.start_session("local[1]") as ready:
        ready()
        assert begun == ["begun local[1]"]
    assert begun == ["begun local[1]", "ended local[1]"]


def test_it_starts_beside_what_takes_long(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "START_DELAY_SECONDS", 0.0)
    with sessions.start_session("local[1]"):
        wait_for(lambda: bool(begun))
    assert begun == ["begun local[1]", "ended local[1]"]


class SilentServer:
    """The settings of a session whose server no longer answers."""

    def __init__(self) -> None:
        self.conf = self
        self.asked = threading.Event()
        self.ends = threading.Event()

    def get(self, *_: object) -> None:
        return None

    def set(self, *_: object) -> None:
        pass

    def unset(self, _: str) -> None:
        self.asked.set()
        self.ends.wait(60)


def test_an_interrupt_does_not_wait_for_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_TIMEOUT_SECONDS", 0.1)
    session: Any = SilentServer()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), tasks._override_settings(session, {"spark.x": "1"}):
        raise KeyboardInterrupt
    session.ends.set()
    assert session.asked.is_set()
    assert time.monotonic() - began < 30
