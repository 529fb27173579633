"""Options of the test run, and the fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from kfmt_cli.core import source
from kfmt_cli.core.native import build_state
from tests.support import left_out, progress, warm
from tests.support.spark_job import job
from tests.support.store_server import bucket, server
from tools.kafka import ROOT, SHORT_LIVED

__all__ = ["bucket", "job", "server"]  # fixtures

SPARK = "tests/spark/"
FILES_WITH_SESSIONS = {f"{SPARK}test_cluster.py", f"{SPARK}test_sessions.py"}
# Every run tries the same examples, without deadlines: a failure is kfmt's, not the machine's. The
# long run tries other examples.
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
    """Report progress and omitted tests; refuse a kernel that is compiled from other sources."""
    if message := build_state.stale_message():
        pytest.exit(message, returncode=pytest.ExitCode.USAGE_ERROR)
    source.MAX_WRITE_NS = 0  # no file of a test is being written, except in live directories
    progress.register(config)
    left_out.register(config)


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Keeps each file in one process, and all files that share a Spark session in the same one."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return SPARK if file.startswith(SPARK) and file not in FILES_WITH_SESSIONS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    """Return the scheduler of a run in several processes."""
    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the long tests; with several processes, sort the slow files first."""
    left_out.mark_long(items)
    left_out.select_share(config, items)
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("interop")}
        slowest = {item.path for item in items if item.get_closest_marker("spark")}
        items.sort(key=lambda item: (item.path not in slowest, item.path not in slow))


def pytest_unconfigure() -> None:
    """Stop the servers of warm runs."""
    warm.stop()


@pytest.fixture(scope="session")
def shared_spark_session() -> Iterator[Any]:
    """The Spark session of all tests that need no other, with the data source registered."""
    from kfmt_cli.spark import register
    from kfmt_cli.spark import session as sessions

    with sessions.open_sql_session("local[2]", {"spark.sql.shuffle.partitions": "4"}) as session:
        register(session)
        yield session


@pytest.fixture
def spark(shared_spark_session: Any) -> Iterator[Any]:
    """The shared session; drops the views that a test creates."""
    yield shared_spark_session
    for table in shared_spark_session.catalog.listTables():
        if table.isTemporary:
            shared_spark_session.catalog.dropTempView(table.name)


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the repository's root, so that displayed paths are the same on every machine."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("NO_COLOR", raising=False)
