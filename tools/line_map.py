"""Which lines of the package each test executes, and how long each test takes.

    python -m tools.line_map [--map DIRECTORY] [--json FILE]

The suite runs once under coverage.py, with a context for each test. The map includes processes that
are forked from the warm server, but no other processes. It is cached in .cache/line_map under a
hash of the sources, so it is created once for each state of them. --json also writes coverage's
report, which `python -m tools.coverage_rooms` reads.
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
DIRECTORY_VARIABLE = "KFMT_LINE_MAP"  # names the directory while a map is being created
MAX_TEST_SECONDS = 5.0  # slower tests are of no use to the tools that read the map
DATA, TESTS, HASH = "coverage.db", "tests.json", "sources"


@dataclass(frozen=True)
class LineMap:
    """A finished map: `directory` has coverage's data and the durations of the tests."""

    directory: Path

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The duration of each test that passed in a reasonable time."""
        tests: dict[str, tuple[float, bool]] = json.loads((self.directory / TESTS).read_text())
        return {
            name: seconds
            for name, (seconds, passed) in tests.items()
            if passed and seconds <= MAX_TEST_SECONDS
        }

    @cached_property
    def _data(self) -> Any:
        from coverage import CoverageData

        data = CoverageData(str(self.directory / DATA))
        data.read()
        return data

    @cached_property
    def _by_file(self) -> dict[Path, dict[int, set[str]]]:
        return {}

    def tests_of(self, file: Path) -> dict[int, set[str]]:
        """By line of a file, the tests that execute it; "" is code before the first test."""
        if file not in self._by_file:
            recorded = {*self.seconds, ""}
            contexts = self._data.contexts_by_lineno(str(file))
            self._by_file[file] = {line: recorded & set(names) for line, names in contexts.items()}
        return self._by_file[file]

    def write_json(self, file: Path) -> None:
        """Write coverage's report on the whole package."""
        coverage = _coverage(self.directory / DATA)
        coverage.load()
        coverage.json_report(outfile=str(file))


def _coverage(data: Path | None) -> Any:
    from coverage import Coverage

    coverage = Coverage(
        data_file=None if data is None else str(data), source=[str(PACKAGE)], config_file=False
    )
    # Otherwise a warning would be an extra line in the output of kfmt.
    coverage.set_option("run:disable_warnings", ["no-data-collected"])
    return coverage


class Recorder:
    """A pytest plugin that records in each process of the test run."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self._tests: defaultdict[str, tuple[float, bool]] = defaultdict(lambda: (0.0, True))
        self._coverage = _coverage(directory / f"part.{name}")
        self._coverage.start()

    def pytest_collection_finish(self) -> None:
        """Make the warm servers record what kfmt executes in forked processes."""
        from tests.support import warm

        warm.SERVER = SERVER

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Use a context for each test."""
        self._coverage.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration and result of a phase of a test."""
        seconds, passed = self._tests[report.nodeid]
        self._tests[report.nodeid] = (seconds + report.duration, passed and report.passed)

    def pytest_sessionfinish(self) -> None:
        """Write the recorded data."""
        self._coverage.stop()
        self._coverage.save()
        (self._directory / f"tests.{self._name}").write_text(json.dumps(self._tests))


class ForkRecorder:
    """Records what kfmt executes in a process forked from a warm server."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._coverage = _coverage(None)
        self._test = ""

    def start(self, env: dict[str, str]) -> None:
        """Start recording, in the process that becomes kfmt; the environment names the test."""
        self._test = env.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if self._test:
            self._coverage.start()

    def finish(self) -> None:
        """Write the recorded data."""
        if self._test:
            self._coverage.stop()
            data = self._coverage.get_data()
            lines = {file: data.lines(file) for file in data.measured_files()}
            output_file = self._directory / f"run.{os.getpid()}.{os.urandom(4).hex()}"
            output_file.write_text(json.dumps([self._test, lines]))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Register the recorder in the processes that run tests, before the package is imported."""
    name = os.environ.get("PYTEST_XDIST_WORKER")
    if name and DIRECTORY_VARIABLE in os.environ:
        early_config.pluginmanager.register(Recorder(Path(os.environ[DIRECTORY_VARIABLE]), name))


def hash_of_sources() -> str:
    """A hash of the sources of the map."""
    digest = hashlib.sha256()
    for directory in (PACKAGE, ROOT / "tests"):
        for path in sorted(directory.rglob("*.py")):
            if path.parent != ROOT / "tests" / "tools":  # whose tests do not run the package
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def line_map(directory: Path | None = None) -> LineMap:
    """The map of the current sources, created if it does not exist."""
    sources = hash_of_sources()
    directory = directory or CACHE / sources
    if not (directory / HASH).exists() or (directory / HASH).read_text() != sources:
        _make(directory)
        (directory / HASH).write_text(sources)
    return LineMap(directory)


def _make(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    parts_directory = directory / "parts"
    parts_directory.mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", SELECTION]
    subprocess.run(
        [*command, "-p", "tools.line_map", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, DIRECTORY_VARIABLE: str(parts_directory)},
        check=False,  # tests that fail are skipped
    )
    _merge(directory, parts_directory)
    shutil.rmtree(parts_directory)


def _merge(directory: Path, parts_directory: Path) -> None:
    """Merge coverage's data into one file, and the durations of the tests into another."""
    from coverage import CoverageData

    data = CoverageData(str(directory / DATA))
    for file in sorted(parts_directory.glob("part.*")):
        part_data = CoverageData(str(file))
        part_data.read()
        data.update(part_data)
    for test, lines in _lines_by_test(parts_directory.glob("run.*")).items():
        data.set_context(test)
        data.add_lines(lines)
    data.write()
    tests: dict[str, object] = {}
    for file in parts_directory.glob("tests.*"):
        tests |= json.loads(file.read_text())
    if not tests:
        raise SystemExit("the tests could not be run; pytest's words are above")
    (directory / TESTS).write_text(json.dumps(tests))


def _lines_by_test(runs: Iterable[Path]) -> dict[str, dict[str, set[int]]]:
    """By test, the lines that its forked processes executed."""
    lines_by_test: dict[str, dict[str, set[int]]] = {}
    for run_file in runs:
        test, files = json.loads(run_file.read_text())
        for file, lines in files.items():
            lines_by_test.setdefault(test, {}).setdefault(file, set()).update(lines)
    return lines_by_test


def main() -> None:
    """Create the map."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--map", type=Path, help="the folder that the map is kept in")
    parser.add_argument("--json", type=Path, help="write coverage's report")
    options = parser.parse_args()
    result = line_map(options.map)
    print(f"{len(result.seconds)} tests in {result.directory}")
    if options.json:
        result.write_json(options.json)


if __name__ == "__main__":
    main()
