"""When Spark starts: in the background, and not if a command fails at once."""

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
def session_events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The starts and ends of sessions, with their masters; no session is real."""
    events = list[str]()

    @contextmanager
    def record_session(_: str, master: str, *__: Any) -> Iterator[str]:
        events.append(f"begun {master}")
        yield "a context"
        events.append(f"ended {master}")

    monkeypatch.setattr(sessions, "_open_jvm_context", record_session)
    monkeypatch.setattr(sessions, "START_DELAY_SECONDS", 3600.0)
    return events


def test_an_immediate_error_does_not_start_spark(session_events: list[str]) -> None:
    with pytest.raises(InputError, match="no such file"), sessions.start_session("local[1]"):
        raise InputError("no such file")
    assert session_events == []


def test_a_request_for_the_session_starts_spark_at_once(session_events: list[str]) -> None:
    with sessions.start_session("local[1]") as ready:
        ready()
        assert session_events == ["begun local[1]"]
    assert session_events == ["begun local[1]", "ended local[1]"]


def test_spark_starts_during_long_work(
    session_events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "START_DELAY_SECONDS", 0.0)
    with sessions.start_session("local[1]"):
        wait_for(lambda: bool(session_events))
    assert session_events == ["begun local[1]", "ended local[1]"]


class SilentServer:
    """The settings of a session whose server no longer answers."""

    def __init__(self) -> None:
        self.conf = self
        self.called = threading.Event()
        self.may_return = threading.Event()

    def get(self, *_: object) -> None:
        return None

    def set(self, *_: object) -> None:
        pass

    def unset(self, _: str) -> None:
        self.called.set()
        self.may_return.wait(60)


def test_an_interrupt_does_not_wait_for_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_TIMEOUT_SECONDS", 0.1)
    session: Any = SilentServer()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), tasks._override_settings(session, {"spark.x": "1"}):
        raise KeyboardInterrupt
    session.may_return.set()
    assert session.called.is_set()
    assert time.monotonic() - started < 30
