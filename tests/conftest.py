"""Options of the test run, and what all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests import progress, warm
from tools.kafka import SHORT_LIVED

for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, " ".join(SHORT_LIVED))


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the golden transcripts."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show which files are done."""
    progress.show_on(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests that share something in one process; begin with those that take long."""
    for item in items:
        if (group := group_of(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    if hasattr(config, "workerinput"):
        slow = ("spark", "interop")
        items.sort(key=lambda it: not any(it.get_closest_marker(name) for name in slow))


def group_of(item: pytest.Item) -> str | None:
    """The session's fixture that a test uses, or its module when it uses one of the module's."""
    assert isinstance(item, pytest.Function)
    groups = set()
    for name, definitions in item._fixtureinfo.name2fixturedefs.items():
        last = definitions[-1]
        if last.baseid and last.scope != "function":
            groups.add(name if last.scope == "session" else item.nodeid.split("::", 1)[0])
    return min(groups, key=lambda it: ("/" in it, it), default=None)


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
