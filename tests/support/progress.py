"""What a run on several processes shows: a line for each file that is done, in place of dots.

A line comes when a file's last test has ended and when a test fails. When none has come for a
while, a line says what runs at that moment. With `-v` or in one process (`-n 0`) pytest's own words
stay.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence

import pytest

PATIENCE = 15.0  # seconds without a line

Status = tuple[str, str, "str | tuple[str, dict[str, bool]]"]


class Progress:
    """Counts the tests of each file as their reports come in from the processes."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._left: Counter[str] = Counter()
        self._outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._running: dict[str, float] = {}
        self._total = 0
        self._done = 0
        self._said = time.monotonic()

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Each process has collected all tests; those of the first are counted."""
        if not self._total:
            self._left.update(file_of(id_) for id_ in ids)
            self._total = len(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test has begun somewhere."""
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended somewhere."""
        file = file_of(report.nodeid)
        self._seconds[file] += report.duration
        if report.failed:
            self._outcomes[file]["failed"] += 1
            self._say(f"FAILED {name_of(report.nodeid)} ({report.when})", red=True)
        elif report.skipped or report.when == "call":
            self._outcomes[file][report.outcome] += 1

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended somewhere."""
        self._running.pop(nodeid, None)
        file = file_of(nodeid)
        self._done += 1
        self._left[file] -= 1
        if not self._left[file]:
            outcomes = self._outcomes[file]
            words = ", ".join(f"{n} {word}" for word, n in outcomes.items())
            line = f"{file:<40} {words:>24} {self._seconds[file]:7.1f} s"
            self._say(line, red=bool(outcomes["failed"]))
        elif time.monotonic() - self._said > PATIENCE:
            now = time.monotonic()
            oldest = sorted(self._running.items(), key=lambda item: item[1])
            self._say("; ".join(f"{name_of(text)} {now - then:.0f} s" for text, then in oldest))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self) -> Generator[None, Status, Status]:
        """The letter, here none, that pytest shows for a test."""
        category, _, _ = yield
        return category, "", ""

    def _say(self, line: str, red: bool = False) -> None:
        self._said = time.monotonic()
        share = 100 * self._done // max(self._total, 1)
        self._terminal.write_line(f"[{share:3}%] {line}", red=red)


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.split("::", 1)[0]


def name_of(nodeid: str) -> str:
    """A test's name, short enough for a line."""
    name = nodeid.split("::", 1)[-1]
    return name if len(name) <= 70 else name[:69] + "…"


def show_on(config: pytest.Config) -> None:
    """Use it where the tests of several processes are shown."""
    several = config.pluginmanager.has_plugin("dsession")
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if several and terminal is not None and config.option.verbose == 0:
        config.pluginmanager.register(Progress(terminal), "kfmt-progress")
