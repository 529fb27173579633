"""Chooses the tests that the default run leaves to .ci/long, and writes tests/long_tests.txt.

    pytest --junitxml FILE; python -m tools.long_tests FILE [--seconds 400]

The slowest tests of a run move until the rest takes at most these seconds in total, on the machine
of the run. Of each file, the quickest test stays, and so do the tests of KEPT: one of each thing
that takes long. Tests that are in the list already stay there; delete a line to measure one again.
A fixture that a moved test paid for is paid for by the next one: run and choose again.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.left_out import NAMES, names

DEFAULT_SECONDS = 400.0
KEPT = (
    "tests/interop/test_start.py::test_a_broker_does_what_check_said[nothing orders CRASH 3.9.1]",
    "tests/spark/test_jobs.py::test_why_a_job_failed_is_said_with_the_file_and_the_command_for_more",
    "tests/spark/test_spark.py::test_records_over_spark_are_those_of_dump[kafka-3.9.1-broker2]",
    "tests/spark/test_stream.py::test_a_query_that_is_restarted_has_every_record_once",
)


def read_durations(report: Path) -> dict[str, float]:
    """The seconds of each test of a run, from its report in JUnit's format."""
    durations: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 (our own)
        file = case.attrib["classname"].replace(".", "/")
        durations[f"{file}.py::{case.attrib['name']}"] = float(case.attrib["time"])
    return durations


def choose_long_tests(durations: Mapping[str, float], max_seconds: float) -> set[str]:
    """The tests to move, so that the others take at most `max_seconds` in total."""
    by_seconds = sorted(durations, key=lambda test: (durations[test], test))
    kept, files = set(KEPT), set()
    for test in by_seconds:
        file = file_of(test)
        if file not in files:
            files.add(file)
            kept.add(test)
    moved: set[str] = set()
    remaining_seconds = sum(durations.values())
    for test in reversed(by_seconds):
        if remaining_seconds <= max_seconds:
            break
        if test not in kept:
            moved.add(test)
            remaining_seconds -= durations[test]
    return moved


def shorten(moved: Iterable[str], all_tests: Iterable[str]) -> list[str]:
    """The names in order; a function of which all cases have moved has one."""
    cases_by_function: defaultdict[str, set[str]] = defaultdict(set)
    for test in all_tests:
        cases_by_function[test.partition("[")[0]].add(test)
    moved = set(moved)
    shortened = set()
    for test in moved:
        function = test.partition("[")[0]
        shortened.add(function if cases_by_function[function] <= moved else test)
    return sorted(shortened)


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS)
    options = parser.parse_args()
    durations = read_durations(options.report)
    moved = choose_long_tests(durations, options.seconds)
    previous = set(names())
    heading = [line for line in NAMES.read_text().splitlines() if line.startswith("#")]
    all_names = shorten(moved | previous, durations.keys() | previous)
    NAMES.write_text("\n".join([*heading, *all_names]) + "\n")
    remaining_seconds = sum(durations.values()) - sum(durations[test] for test in moved)
    print(f"{len(moved)} of {len(durations)} tests move; {remaining_seconds:.0f} s remain")


if __name__ == "__main__":
    main()
