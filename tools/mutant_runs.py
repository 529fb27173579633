"""Runs of chosen tests with a mutant in place: in a fork of a process that has collected all tests,
or in a new process.

    python -m tools.mutant_runs SPEC        the new process; SPEC: a file with what it is to do
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pytest

from tools import mutated
from tools.line_map import SELECTION, SERVER

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 60.0  # seconds for the tests of one mutant; who waits longer notices that it hangs
MEMORY = 8 << 30  # bytes that a mutant may ask for
IMPORT = "(import)"
NOT_PUT_IN = "(not put in)"
BROKEN = "(the process)"
OPTIONS = (
    *("-o", "addopts=", "-q", "-n", "0"),
    *("-p", "no:cacheprovider", "--hypothesis-seed=0"),
)

Change = tuple[str, int]  # a mutant's file and number


@dataclass(frozen=True)
class Outcome:
    """How a run ended: survived, caught (by which test, which said what), timed out. ran: how many
    tests."""

    found: str
    by: str = ""
    ran: int = 0
    seconds: float = 0.0
    why: str = ""


class Failures:
    """A plugin that keeps which test failed, and what it said."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.seen.append((report.nodeid, getattr(crash, "message", report.longreprtext)[:300]))


class Runs:
    """Runs tests that a session has collected."""

    def __init__(self, session: pytest.Session, scratch: Path, limit: float) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._failures = Failures()
        session.config.pluginmanager.register(self._failures)
        self._scratch, self._limit = scratch, limit
        self._passed: set[tuple[tuple[str, ...], bool]] = set()
        self.broken: set[str] = set()  # tests that say nothing, as they fail without a mutant

    def failing(self, tests: Sequence[str], fresh: bool) -> str:
        """Which of some tests fails with no mutant; those that pass are remembered."""
        key = (tuple(tests), fresh)
        if key not in self._passed:
            outcome = self.run(tests, None, fresh)
            if outcome.found != "survived":
                return outcome.by if outcome.by in tests else tests[-1]
            self._passed.add(key)
        return ""

    def run(self, tests: Sequence[str], change: Change | None, fresh: bool) -> Outcome:
        """Run tests until one fails, with a mutant or with none."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        started = time.monotonic()
        try:
            found = (
                self._fresh(tests, change, folder) if fresh else self._fork(tests, change, folder)
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seconds = round(time.monotonic() - started, 2)
        return replace(found, seconds=seconds)

    def _fork(self, tests: Sequence[str], change: Change | None, folder: Path) -> Outcome:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._in_fork(tests, change, folder, writer)
        os.close(writer)
        try:
            ready, _, _ = select.select([reader], [], [], self._limit)
            said = _read_all(reader) if ready else None
        finally:
            os.close(reader)
            _end(pid)
        return _outcome(said)

    def _in_fork(
        self, tests: Sequence[str], change: Change | None, folder: Path, writer: int
    ) -> NoReturn:
        said: dict[str, Any] = {"by": BROKEN, "ran": 0}
        try:
            os.setsid()
            limit_memory()
            said = self._said(tests, change, folder)
        finally:
            os.write(writer, json.dumps(said).encode())
            os._exit(0)

    def _said(self, tests: Sequence[str], change: Change | None, folder: Path) -> dict[str, Any]:
        """In the fork: what is told to the process that forked."""
        if not _put_in(change):
            return {"by": NOT_PUT_IN, "ran": 0}
        items = [self._items[test] for test in tests]
        # The folders of tests are in one of this run's own.
        items[0].config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        return run_items(items, self._failures)

    def _fresh(self, tests: Sequence[str], change: Change | None, folder: Path) -> Outcome:
        spec, result = folder / "spec.json", folder / "result.json"
        spec.write_text(json.dumps({"tests": list(tests), "result": str(result)}))
        env = {**os.environ, **(mutated.environment_of(*change) if change else {})}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tools.mutant_runs", str(spec)],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                process.wait(self._limit)
            except subprocess.TimeoutExpired:
                return Outcome("timed out")
            finally:
                _end(process.pid, wait=False)
                process.wait()
        return _outcome(result.read_bytes()) if result.exists() else Outcome("caught", IMPORT)


def _put_in(change: Change | None) -> bool:
    """Put a mutant into this process; whether that could be done."""
    if change is not None:
        os.environ |= mutated.environment_of(*change)
        try:
            mutated.put_in()
        except (mutated.NothingExchangedError, ValueError):  # or other names are free in the code
            return False
    return True


def _outcome(said: bytes | None) -> Outcome:
    if said is None:
        return Outcome("timed out")
    found: dict[str, Any] = json.loads(said) if said else {"by": BROKEN, "ran": 0}
    by, why = found["by"], found.get("why", "")
    return Outcome("caught" if by else "survived", by, found["ran"], why=why)


def _read_all(fd: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as pipe:
        return pipe.read()


def _end(pid: int, *, wait: bool = True) -> None:
    """End a process and those that it started."""
    with suppress(ProcessLookupError):  # when all have ended
        os.killpg(pid, signal.SIGKILL)
    if wait:
        os.waitpid(pid, 0)


def limit_memory() -> None:
    """Have a mutant that asks for ever more memory fail, rather than the machine."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, hard))


def run_items(items: Sequence[pytest.Item], failures: Failures) -> dict[str, Any]:
    """Run tests until one fails."""
    for number, item in enumerate(items):
        following = items[number + 1] if number + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.seen:
            by, why = failures.seen[0]
            return {"by": by, "ran": number + 1, "why": why}
    return {"by": "", "ran": len(items)}


class Loop:
    """A plugin that does something else with the tests than run them all."""

    def __init__(self, function: Callable[[pytest.Session], None]) -> None:
        self._function = function
        self.called = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own loop."""
        from tests.support import warm

        warm.SERVER = SERVER
        self.called = True
        self._function(session)
        return True


def with_tests(function: Callable[[Runs, TextIO], None], limit: float = LIMIT) -> None:
    """Collect all tests; call a function with what runs them and a stream to write to, as standard
    output is pytest's. limit: seconds for a run. Raises SystemExit when the tests cannot be
    collected."""
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name, os.fdopen(os.dup(1), "w") as out:
        scratch = Path(name)
        os.environ["TMPDIR"] = tempfile.tempdir = name
        problem: list[BaseException] = []

        def loop(session: pytest.Session) -> None:
            try:
                _start_server()
                gc.collect()
                gc.freeze()  # or each fork would look through it, and copy it by that
                function(Runs(session, scratch, limit), out)
            except (SystemExit, Exception) as error:  # which pytest would write to its log
                problem.append(error)

        log = os.open(scratch / "log", os.O_CREAT | os.O_RDWR)
        for fd in (1, 2):
            os.dup2(log, fd)
        plugin = Loop(loop)
        base = f"--basetemp={scratch / 'tests'}"
        pytest.main([*OPTIONS, "-m", SELECTION, base], plugins=[plugin])
        if not plugin.called:
            out.write((scratch / "log").read_text(errors="replace"))
            raise SystemExit(1)
        os.dup2(out.fileno(), 2)
    if problem:
        raise problem[0]


def _start_server() -> None:
    """The server that forks for runs of kfmt in processes of their own, so that not every mutant
    starts one."""
    from tests.support import warm
    from tests.support.samples import environment

    warm.server_for(environment())


def main() -> None:
    """The new process: put the mutant in, collect, run."""
    limit_memory()
    mutated.put_in()
    spec = json.loads(Path(sys.argv[1]).read_text())
    tests: list[str] = spec["tests"]

    def loop(session: pytest.Session) -> None:
        items = {item.nodeid: item for item in session.items}
        failures = Failures()
        session.config.pluginmanager.register(failures)
        gone = [test for test in tests if test not in items]
        said = (
            {"by": gone[0], "ran": 0}
            if gone
            else run_items([items[test] for test in tests], failures)
        )
        Path(spec["result"]).write_text(json.dumps(said))

    files = list(dict.fromkeys(test.split("::", 1)[0] for test in tests))
    base = f"--basetemp={Path(sys.argv[1]).parent / 'tests'}"
    pytest.main([*OPTIONS, base, *files], plugins=[Loop(loop)])


if __name__ == "__main__":
    main()
