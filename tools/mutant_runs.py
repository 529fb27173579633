"""Runs selected tests with a mutant installed: in a fork of a process that has collected all tests,
or in a new process.

    python -m tools.mutant_runs SPEC        the new process; SPEC: a file with its tests
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn, TextIO

import pytest

from tools import mutated
from tools.line_map import SELECTION, SERVER

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT = 60.0  # seconds for the tests of one mutant; beyond, it hangs
MEMORY_LIMIT = 8 << 30  # bytes that a mutant may allocate
CAUGHT, SURVIVED, TIMED_OUT, NOT_COVERED = "caught", "survived", "timed out", "not covered"
# Runs that say nothing about the tests: the code was not exchanged, the module was not imported,
# the process ended before its tests.
NOT_INSTALLED, NOT_IMPORTED, ENDED = "not installed", "not imported", "process ended"
FINDINGS = (CAUGHT, TIMED_OUT, SURVIVED, NOT_COVERED, NOT_INSTALLED, NOT_IMPORTED, ENDED)
OPTIONS = (
    *("-o", "addopts=", "-q", "-n", "0"),
    *("-p", "no:cacheprovider", "--hypothesis-seed=0"),
)

Change = tuple[str, int]  # a mutant's file and number


@dataclass(frozen=True)
class Outcome:
    """The result of a run. found: one of FINDINGS; by: the test that caught it, and why: its
    message; ran: the number of tests."""

    found: str
    by: str = ""
    ran: int = 0
    seconds: float = 0.0
    why: str = ""


class Failures:
    """A pytest plugin that records failed tests and their messages."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a failed phase of a test."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failures.append(
                (report.nodeid, getattr(crash, "message", report.longreprtext)[:300])
            )


class Runs:
    """Runs tests that a session has collected."""

    def __init__(self, session: pytest.Session, scratch: Path, limit: float) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._failures = Failures()
        session.config.pluginmanager.register(self._failures)
        self._scratch, self._limit = scratch, limit
        self._passed: set[tuple[tuple[str, ...], bool]] = set()
        self.broken: set[str] = set()  # tests that are useless, as they fail without a mutant

    def failing(self, tests: Sequence[str], fresh: bool) -> str:
        """The test that fails without a mutant, or ""; caches the lists of tests that pass."""
        key = (tuple(tests), fresh)
        if key not in self._passed:
            outcome = self.run(tests, None, fresh)
            if outcome.found != SURVIVED:
                return outcome.by if outcome.by in tests else tests[-1]
            self._passed.add(key)
        return ""

    def run(self, tests: Sequence[str], change: Change | None, fresh: bool) -> Outcome:
        """Run tests until one fails, with a mutant or with none."""
        directory = Path(tempfile.mkdtemp(dir=self._scratch))
        start = time.monotonic()
        try:
            outcome = (
                run_in_new_process(tests, change, directory, self._limit)
                if fresh
                else self._run_forked(tests, change, directory)
            )
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        seconds = round(time.monotonic() - start, 2)
        return replace(outcome, seconds=seconds)

    def _run_forked(self, tests: Sequence[str], change: Change | None, directory: Path) -> Outcome:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._answer_from_fork(tests, change, directory, writer)
        os.close(writer)
        try:
            ready, _, _ = select.select([reader], [], [], self._limit)
            outcome = _outcome(_read_all(reader)) if ready else Outcome(TIMED_OUT)
        finally:
            os.close(reader)
            _kill(pid)
        return outcome

    def _answer_from_fork(
        self, tests: Sequence[str], change: Change | None, directory: Path, writer: int
    ) -> NoReturn:
        outcome = Outcome(ENDED)
        try:
            os.setsid()
            limit_memory()
            outcome = self._run_in_fork(tests, change, directory)
        finally:
            os.write(writer, json.dumps(asdict(outcome)).encode())
            os._exit(0)

    def _run_in_fork(self, tests: Sequence[str], change: Change | None, directory: Path) -> Outcome:
        """Run the tests in the fork; the result for the parent process."""
        if not _install(change):
            return Outcome(NOT_INSTALLED)
        items = [self._items[test] for test in tests]
        # The temporary directories of tests are in the directory of this run.
        items[0].config._tmp_path_factory._basetemp = directory  # type: ignore[attr-defined]
        return run_items(items, self._failures)


def run_in_new_process(
    tests: Sequence[str], change: Change | None, directory: Path, limit: float, root: Path = ROOT
) -> Outcome:
    """Run tests in a process that imports all modules, so that a mutant may run at import."""
    spec, result = directory / "spec.json", directory / "result.json"
    spec.write_text(json.dumps({"tests": list(tests), "result": str(result)}))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    if change is not None:
        env |= mutated.environment_of(*change)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.mutant_runs", str(spec)],
            cwd=root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            return Outcome(TIMED_OUT)
        finally:
            _kill(process.pid, wait=False)
            process.wait()
    return _outcome(result.read_bytes()) if result.exists() else Outcome(NOT_IMPORTED)


def _install(change: Change | None) -> bool:
    """Install a mutant in this process; returns whether it succeeded."""
    if change is not None:
        os.environ |= mutated.environment_of(*change)
        try:
            mutated.install_from_environment()
        except (mutated.NothingExchangedError, ValueError):  # or the code has other free variables
            return False
    return True


def _outcome(reply: bytes) -> Outcome:
    """The result that a process sent; it sent none if a signal ended it."""
    return Outcome(**json.loads(reply)) if reply else Outcome(ENDED)


def _read_all(fd: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as pipe:
        return pipe.read()


def _kill(pid: int, *, wait: bool = True) -> None:
    """Kill a process and its children."""
    with suppress(ProcessLookupError):  # when all have ended
        os.killpg(pid, signal.SIGKILL)
    if wait:
        os.waitpid(pid, 0)


def limit_memory() -> None:
    """Limit memory, so that a mutant fails and not the machine."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, hard))


def run_items(items: Sequence[pytest.Item], failures: Failures) -> Outcome:
    """Run tests until one fails."""
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.failures:
            test, message = failures.failures[0]
            return Outcome(CAUGHT, test, index + 1, why=message)
    return Outcome(SURVIVED, ran=len(items))


class Loop:
    """A pytest plugin that calls a function in place of running all tests."""

    def __init__(self, function: Callable[[pytest.Session], None]) -> None:
        self._function = function
        self.called = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replace pytest's own loop."""
        from tests.support import warm

        warm.SERVER = SERVER
        self.called = True
        self._function(session)
        return True


def with_tests(function: Callable[[Runs, TextIO], None], limit: float = TIME_LIMIT) -> None:
    """Collect all tests, and call a function with a `Runs` and an output stream, because pytest
    captures standard output. limit: seconds for a run. Raises SystemExit if the tests cannot be
    collected."""
    sys.stdout.flush()
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as name,
        os.fdopen(os.dup(1), "w") as output,
    ):
        scratch = Path(name)
        os.environ["TMPDIR"] = tempfile.tempdir = name
        errors: list[BaseException] = []

        def loop(session: pytest.Session) -> None:
            try:
                _start_server()
                gc.collect()
                gc.freeze()  # otherwise each fork would traverse, and so copy, all objects
                function(Runs(session, scratch, limit), output)
            except (SystemExit, Exception) as error:  # pytest would write it to its log
                errors.append(error)

        log = os.open(scratch / "log", os.O_CREAT | os.O_RDWR)
        for fd in (1, 2):
            os.dup2(log, fd)
        plugin = Loop(loop)
        base = f"--basetemp={scratch / 'tests'}"
        pytest.main([*OPTIONS, "-m", SELECTION, base], plugins=[plugin])
        if not plugin.called:
            output.write((scratch / "log").read_text(errors="replace"))
            raise SystemExit(1)
        os.dup2(output.fileno(), 2)
    if errors:
        raise errors[0]


def _start_server() -> None:
    """Start the server that forks processes of kfmt, so that not every mutant starts one."""
    from tests.support import warm
    from tests.support.samples import environment

    warm.server_for(environment())


def main() -> None:
    """In the new process: install the mutant, collect, run."""
    limit_memory()
    mutated.install_from_environment()
    spec = json.loads(Path(sys.argv[1]).read_text())
    tests: list[str] = spec["tests"]

    def write(outcome: Outcome) -> None:
        Path(spec["result"]).write_text(json.dumps(asdict(outcome)))

    def loop(session: pytest.Session) -> None:
        items = {item.nodeid: item for item in session.items}
        if not items.keys() >= set(tests):
            return  # a test file could not import the module
        write(Outcome(ENDED))
        failures = Failures()
        session.config.pluginmanager.register(failures)
        write(run_items([items[test] for test in tests], failures))

    files = list(dict.fromkeys(test.split("::", 1)[0] for test in tests))
    base = f"--basetemp={Path(sys.argv[1]).parent / 'tests'}"
    pytest.main([*OPTIONS, base, *files], plugins=[Loop(loop)])


if __name__ == "__main__":
    main()
