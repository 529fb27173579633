"""Options of the test run, and what all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from kfmt_cli.core.native import build_state
from tests.support import left_out, progress, warm
from tests.support.spark_job import job
from tests.support.store_server import bucket, server
from tools.kafka import ROOT, SHORT_LIVED

__all__ = ["bucket", "job", "server"]  # fixtures

SPARK = "tests/spark/"
OWN_SESSIONS = {f"{SPARK}test_cluster.py", f"{SPARK}test_sessions.py"}
# The same examples in every run, however busy the machine is: what is red is kfmt. The long run
# tries others.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, " ".join(SHORT_LIVED))


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the golden transcripts."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show which files are done, and what is left out; refuse a kernel of other sources."""
    if words := build_state.stale_message():
        pytest.exit(words, returncode=pytest.ExitCode.USAGE_ERROR)
    progress.show_on(config)
    left_out.show_on(config)


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """A file stays in one process, as do all files that share a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return SPARK if file.startswith(SPARK) and file not in OWN_SESSIONS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """What runs where, with several processes."""
    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what takes long; with several processes, begin with the files that do."""
    left_out.mark_long(items)
    left_out.keep_share(config, items)
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("interop")}
        slowest = {item.path for item in items if item.get_closest_marker("spark")}
        items.sort(key=lambda item: (item.path not in slowest, item.path not in slow))


def pytest_unconfigure() -> None:
    """End the processes that kfmt was run in."""
    warm.stop()


@pytest.fixture(scope="session")
def session_of_all() -> Iterator[Any]:
    """The Spark session of all tests that need no other, with the data source registered."""
    from kfmt_cli.spark import register
    from kfmt_cli.spark import session as sessions

    with sessions.session("local[2]", {"spark.sql.shuffle.partitions": "4"}) as session:
        register(session)
        yield session


@pytest.fixture
def spark(session_of_all: Any) -> Iterator[Any]:
    """That session; the views that a test makes go with it."""
    yield session_of_all
    for table in session_of_all.catalog.listTables():
        if table.isTemporary:
            session_of_all.catalog.dropTempView(table.name)


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths on the screen are those that anybody has."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("NO_COLOR", raising=False)
