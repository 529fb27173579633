"""Which lines of the package each test executes, and how long each test takes.

    python -m tools.line_map [--map FOLDER] [--json FILE]

The suite runs once under coverage.py, with a context for each test; what runs of kfmt in processes
forked from the warm server execute is in it as well, what other processes execute is not. The
result is kept in .cache/line_map under a hash of the sources, so it is made once for each state of
them. --json also writes coverage's report, which `python -m tools.coverage_rooms` reads.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "kfmt_cli"
CACHE = ROOT / ".cache" / "line_map"
SELECTION = "not interop and not spark"
SERVER = Path(__file__).with_name("watched_server.py")
FOLDER = "KFMT_LINE_MAP"  # the variable that names the folder of a map that is being made
LONGEST_TEST = 5.0  # seconds; a test that takes longer is of no use to the tools that read the map
DATA, TESTS, HASH = "coverage.db", "tests.json", "sources"


@dataclass(frozen=True)
class LineMap:
    """A finished map: `folder` has coverage's data and the tests' seconds."""

    folder: Path

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The tests that passed in a reasonable time, and how long each of them took."""
        tests: dict[str, tuple[float, bool]] = json.loads((self.folder / TESTS).read_text())
        return {
            name: seconds
            for name, (seconds, passed) in tests.items()
            if passed and seconds <= LONGEST_TEST
        }

    @cached_property
    def _data(self) -> Any:
        from coverage import CoverageData

        data = CoverageData(str(self.folder / DATA))
        data.read()
        return data

    @cached_property
    def _by_file(self) -> dict[Path, dict[int, set[str]]]:
        return {}

    def tests_of(self, file: Path) -> dict[int, set[str]]:
        """By line of a file, the tests that execute it; "" is what runs before any test does."""
        if file not in self._by_file:
            known = {*self.seconds, ""}
            found = self._data.contexts_by_lineno(str(file))
            self._by_file[file] = {line: known & set(names) for line, names in found.items()}
        return self._by_file[file]

    def write_json(self, file: Path) -> None:
        """Write coverage's report on the whole package."""
        coverage = _coverage(self.folder / DATA)
        coverage.load()
        coverage.json_report(outfile=str(file))


def _coverage(data: Path | None) -> Any:
    from coverage import Coverage

    coverage = Coverage(
        data_file=None if data is None else str(data), source=[str(PACKAGE)], config_file=False
    )
    # Or a run of kfmt that is another's would have a line more than it should.
    coverage.set_option("run:disable_warnings", ["no-data-collected"])
    return coverage


class Recorder:
    """A plugin of pytest that records in each process of the test run."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._tests: defaultdict[str, tuple[float, bool]] = defaultdict(lambda: (0.0, True))
        self._coverage = _coverage(folder / f"part.{name}")
        self._coverage.start()

    def pytest_collection_finish(self) -> None:
        """Have the warm servers record what runs of kfmt execute in processes of their own."""
        from tests.support import warm

        warm.SERVER = SERVER

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Each test is a context."""
        self._coverage.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended."""
        seconds, passed = self._tests[report.nodeid]
        self._tests[report.nodeid] = (seconds + report.duration, passed and report.passed)

    def pytest_sessionfinish(self) -> None:
        """Write down what was seen."""
        self._coverage.stop()
        self._coverage.save()
        (self._folder / f"tests.{self._name}").write_text(json.dumps(self._tests))


class InFork:
    """Records what one run of kfmt executes in a process forked from a warm server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._coverage = _coverage(None)
        self._test = ""

    def start(self, env: dict[str, str]) -> None:
        """Begin, in the process that becomes kfmt; the environment names the test."""
        self._test = env.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if self._test:
            self._coverage.start()

    def finish(self) -> None:
        """Write down what was seen."""
        if self._test:
            self._coverage.stop()
            data = self._coverage.get_data()
            lines = {file: data.lines(file) for file in data.measured_files()}
            part = self._folder / f"run.{os.getpid()}.{os.urandom(4).hex()}"
            part.write_text(json.dumps([self._test, lines]))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """As a plugin of the processes that run the tests: before the package is imported."""
    name = os.environ.get("PYTEST_XDIST_WORKER")
    if name and FOLDER in os.environ:
        early_config.pluginmanager.register(Recorder(Path(os.environ[FOLDER]), name))


def hash_of_sources() -> str:
    """A hash of what the map is made from."""
    hashed = hashlib.sha256()
    for room in (PACKAGE, ROOT / "tests"):
        for path in sorted(room.rglob("*.py")):
            if path.parent != ROOT / "tests" / "tools":  # whose tests do not run the package
                hashed.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return hashed.hexdigest()[:16]


def line_map(folder: Path | None = None) -> LineMap:
    """The map of the sources as they are; it is made unless it is there."""
    sources = hash_of_sources()
    folder = folder or CACHE / sources
    if not (folder / HASH).exists() or (folder / HASH).read_text() != sources:
        _make(folder)
        (folder / HASH).write_text(sources)
    return LineMap(folder)


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    parts = folder / "parts"
    parts.mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", SELECTION]
    subprocess.run(
        [*command, "-p", "tools.line_map", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, FOLDER: str(parts)},
        check=False,  # a test that fails is left out
    )
    _merge(folder, parts)
    shutil.rmtree(parts)


def _merge(folder: Path, parts: Path) -> None:
    """One file of coverage's data, and one of the tests' seconds."""
    from coverage import CoverageData

    data = CoverageData(str(folder / DATA))
    for part in sorted(parts.glob("part.*")):
        one = CoverageData(str(part))
        one.read()
        data.update(one)
    for test, lines in _together(parts.glob("run.*")).items():
        data.set_context(test)
        data.add_lines(lines)
    data.write()
    tests: dict[str, object] = {}
    for part in parts.glob("tests.*"):
        tests |= json.loads(part.read_text())
    if not tests:
        raise SystemExit("the tests could not be run; pytest's words are above")
    (folder / TESTS).write_text(json.dumps(tests))


def _together(runs: Iterable[Path]) -> dict[str, dict[str, set[int]]]:
    """The lines of all runs of kfmt that a test started."""
    found: dict[str, dict[str, set[int]]] = {}
    for part in runs:
        test, files = json.loads(part.read_text())
        for file, lines in files.items():
            found.setdefault(test, {}).setdefault(file, set()).update(lines)
    return found


def main() -> None:
    """Make the map."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--map", type=Path, help="the folder that the map is kept in")
    parser.add_argument("--json", type=Path, help="write coverage's report")
    options = parser.parse_args()
    found = line_map(options.map)
    print(f"{len(found.seconds)} tests in {found.folder}")
    if options.json:
        found.write_json(options.json)


if __name__ == "__main__":
    main()
