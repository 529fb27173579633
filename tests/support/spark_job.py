"""Jobs in the Spark session of all tests."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import Done

Job = Callable[..., Done]


@pytest.fixture
def job(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Job]:
    """`kfmt pipeline ARGUMENTS` in the session of all tests, in place of one of its own. Its exit
    code has to be `code`; None is for any."""
    from kfmt_cli import __main__
    from kfmt_cli.spark import session as sessions

    def run_here(*arguments: str | Path, code: int | None = 0) -> Done:
        monkeypatch.setattr(sys, "argv", ["kfmt", "pipeline", *map(str, arguments)])
        capfd.readouterr()
        done = Done(__main__.run(), *capfd.readouterr())
        assert code in (None, done.code), done.out + done.err
        assert "WARN" not in done.err
        assert "Traceback" not in done.err
        return done

    monkeypatch.setattr(sessions, "start_session", lambda *_: nullcontext(lambda: spark))
    before = signal.getsignal(signal.SIGTERM), gc.get_threshold()
    yield run_here
    signal.signal(signal.SIGTERM, before[0])
    gc.set_threshold(*before[1])
