"""The tests that a run omits because of their marks; one line at its end counts them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

LONG = ("brokers", "clusters", "browsers", "servers", "fuzz", "long")
NAMES = Path(__file__).parents[1] / "long_tests.txt"
LONG_TESTS_SCRIPT = ".ci/long"


def names() -> list[str]:
    """The tests with the mark `long`, by their names in a report."""
    return [line for line in NAMES.read_text().splitlines() if not line.startswith("#")]


def mark_long(items: Sequence[pytest.Item]) -> None:
    """Give tests the mark `long`."""
    long_names = set(names())
    for item in items:
        if item.nodeid in long_names or item.nodeid.partition("[")[0] in long_names:
            item.add_marker(pytest.mark.long)


def select_share(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the share of the long tests that `KFMT_LONG_SHARE` names.

    2/4 is every fourth long test of each file; the first one depends on the file's name, so that
    shares take about as long. All shares are all tests.
    """
    share = os.environ.get("KFMT_LONG_SHARE")
    if not share:
        return
    index, n_shares = map(int, share.split("/"))
    n_long_by_path: Counter[Path] = Counter()
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        is_long = any(map(item.get_closest_marker, LONG))
        first_share = crc32(item.path.name.encode())
        test_share = (first_share + n_long_by_path[item.path]) % n_shares
        is_selected = not is_long or test_share == index % n_shares
        n_long_by_path[item.path] += is_long
        (selected if is_selected else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = selected


class OmittedTests:
    """Counts the tests that were not selected because of a mark of long tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._marks: Counter[str] = Counter()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Count deselected tests; a worker process reports its counts to its parent."""
        for item in items:
            mark = next((mark for mark in LONG if item.get_closest_marker(mark)), None)
            if mark:
                self._marks[mark] += 1
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["left_out"] = dict(self._marks)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take the counts of a worker process; each process has collected all tests."""
        self._marks = Counter(getattr(node, "workeroutput", {}).get("left_out", {})) or self._marks

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report the omitted tests."""
        if self._marks:
            counts = ", ".join(f"{n} {mark}" for mark, n in sorted(self._marks.items()))
            terminalreporter.write_line(
                f"not run, as they take minutes: {self._marks.total()} tests ({counts}); "
                f"{LONG_TESTS_SCRIPT} runs them"
            )


def register(config: pytest.Config) -> None:
    """Report omitted tests at the end of a run."""
    config.pluginmanager.register(OmittedTests(config), "kfmt-left-out")
