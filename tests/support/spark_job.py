"""Jobs in the Spark session that all tests share."""

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
    """`kfmt pipeline ARGUMENTS` in the shared Spark session. Its exit code must be `code`; None
    allows any."""
    from kfmt_cli import __main__
    from kfmt_cli.spark import session as sessions

    def run_job(*arguments: str | Path, code: int | None = 0) -> Done:
        monkeypatch.setattr(sys, "argv", ["kfmt", "pipeline", *map(str, arguments)])
        capfd.readouterr()
        result = Done(__main__.run(), *capfd.readouterr())
        assert code in (None, result.code), result.out + result.err
        assert "WARN" not in result.err
        assert "Traceback" not in result.err
        return result

    monkeypatch.setattr(sessions, "start_session", lambda *_: nullcontext(lambda: spark))
    previous = signal.getsignal(signal.SIGTERM), gc.get_threshold()
    yield run_job
    signal.signal(signal.SIGTERM, previous[0])
    gc.set_threshold(*previous[1])
