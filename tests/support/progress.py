"""Progress of a run in several processes: a line for each finished file in place of dots.

A line appears when a file's last test ends and when a test fails. When no line has appeared for a
while, one lists the tests that are running. With `-v` or in one process (`-n 0`) pytest's own
output stays.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence

import pytest

MAX_SILENT_SECONDS = 15.0  # seconds without a line

Status = tuple[str, str, "str | tuple[str, dict[str, bool]]"]


class Progress:
    """Counts the tests of each file as their reports come in from the processes."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._n_remaining: Counter[str] = Counter()
        self._outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._running: dict[str, float] = {}
        self._n_tests = 0
        self._n_finished = 0
        self._last_line_time = time.monotonic()

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Each process has collected all tests; those of the first are counted."""
        if not self._n_tests:
            self._n_remaining.update(file_of(id_) for id_ in ids)
            self._n_tests = len(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test has begun somewhere."""
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended somewhere."""
        file = file_of(report.nodeid)
        self._seconds[file] += report.duration
        if report.failed:
            self._outcomes[file]["failed"] += 1
            self._write_line(f"FAILED {name_of(report.nodeid)} ({report.when})", red=True)
        elif report.skipped or report.when == "call":
            self._outcomes[file][report.outcome] += 1

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended somewhere."""
        self._running.pop(nodeid, None)
        file = file_of(nodeid)
        self._n_finished += 1
        self._n_remaining[file] -= 1
        if not self._n_remaining[file]:
            outcomes = self._outcomes[file]
            counts = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items())
            line = f"{file:<40} {counts:>24} {self._seconds[file]:7.1f} s"
            self._write_line(line, red=bool(outcomes["failed"]))
        elif time.monotonic() - self._last_line_time > MAX_SILENT_SECONDS:
            now = time.monotonic()
            oldest = sorted(self._running.items(), key=lambda item: item[1])
            self._write_line(
                "; ".join(f"{name_of(running)} {now - start:.0f} s" for running, start in oldest)
            )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self) -> Generator[None, Status, Status]:
        """Show no letter for a test."""
        category, _, _ = yield
        return category, "", ""

    def _write_line(self, line: str, red: bool = False) -> None:
        self._last_line_time = time.monotonic()
        percentage = 100 * self._n_finished // max(self._n_tests, 1)
        self._terminal.write_line(f"[{percentage:3}%] {line}", red=red)


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.split("::", 1)[0]


def name_of(nodeid: str) -> str:
    """A test's name, short enough for a line."""
    name = nodeid.split("::", 1)[-1]
    return name if len(name) <= 70 else name[:69] + "…"


def register(config: pytest.Config) -> None:
    """Report progress if the run has several processes and is not verbose."""
    is_distributed = config.pluginmanager.has_plugin("dsession")
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if is_distributed and terminal is not None and config.option.verbose == 0:
        config.pluginmanager.register(Progress(terminal), "kfmt-progress")
