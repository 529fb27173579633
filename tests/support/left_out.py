"""What a run has left out by its marks, said in one line at its end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

LONG = ("brokers", "clusters", "browsers", "servers", "fuzz", "long")
NAMES = Path(__file__).parents[1] / "long_tests.txt"
SCRIPT = ".ci/long"


def names() -> list[str]:
    """The tests with the mark `long`, by their names in a report."""
    return [line for line in NAMES.read_text().splitlines() if not line.startswith("#")]


def mark_long(items: Sequence[pytest.Item]) -> None:
    """Give tests the mark `long`."""
    known = set(names())
    for item in items:
        if item.nodeid in known or item.nodeid.partition("[")[0] in known:
            item.add_marker(pytest.mark.long)


def keep_share(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the share of the long tests that `KFMT_LONG_SHARE` names, as 2/4: of each file, every
    fourth one from the third on. Those of all shares are all tests."""
    share = os.environ.get("KFMT_LONG_SHARE")
    if not share:
        return
    number, of = map(int, share.split("/"))
    seen: Counter[Path] = Counter()
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        is_long = any(map(item.get_closest_marker, LONG))
        is_kept = not is_long or seen[item.path] % of == number % of
        seen[item.path] += is_long
        (kept if is_kept else dropped).append(item)
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


class LeftOut:
    """Counts the tests that were not selected because of a mark of long tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._marks: Counter[str] = Counter()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Tests are not to be run; in a process of several, its parent is told at the end."""
        for item in items:
            mark = next((mark for mark in LONG if item.get_closest_marker(mark)), None)
            if mark:
                self._marks[mark] += 1
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["left_out"] = dict(self._marks)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """A process has ended; each has collected all tests."""
        self._marks = Counter(getattr(node, "workeroutput", {}).get("left_out", {})) or self._marks

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was not run."""
        if self._marks:
            words = ", ".join(f"{n} {mark}" for mark, n in sorted(self._marks.items()))
            terminalreporter.write_line(
                f"not run, as they take minutes: {self._marks.total()} tests ({words}); "
                f"{SCRIPT} runs them"
            )


def show_on(config: pytest.Config) -> None:
    """Say it at the end of a run."""
    config.pluginmanager.register(LeftOut(config), "kfmt-left-out")
