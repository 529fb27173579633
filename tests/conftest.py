"""Options of the test run, and what all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import progress, warm
from tests.support.spark_job import job
from tests.support.store_server import bucket, server
from tools.kafka import ROOT, SHORT_LIVED

__all__ = ["bucket", "job", "server"]  # fixtures

for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, " ".join(SHORT_LIVED))


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the golden transcripts."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show which files are done."""
    progress.show_on(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes, begin with the files that take long; each file stays in one."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("interop")}
        slowest = {item.path for item in items if item.get_closest_marker("spark")}
        items.sort(key=lambda item: (item.path not in slowest, item.path not in slow))


def pytest_unconfigure() -> None:
    """End the processes that kfmt was run in."""
    warm.stop()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The Spark session of all tests that need no other, with the data source registered."""
    from kfmt_cli.spark import register
    from kfmt_cli.spark import session as sessions

    with sessions.session("local[2]", {"spark.sql.shuffle.partitions": "4"}) as session:
        register(session)
        yield session


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths on the screen are those that anybody has."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("NO_COLOR", raising=False)
