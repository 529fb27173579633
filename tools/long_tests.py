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
    # Without these, the default tests cover less of their rooms than tools/coverage_rooms wants.
    "tests/arrow/test_lake.py::test_a_dry_run_does_nothing",
    "tests/arrow/test_lake.py::test_both_exports_have_the_same_rows",
    "tests/arrow/test_lake.py::test_lakes_take_the_files_as_they_are",
    "tests/arrow/test_lake.py::test_the_manifest_accounts_for_every_record",
    "tests/arrow/test_lake.py::test_values_are_decoded_into_a_column",
    "tests/browse/test_browse.py::test_a_directory_says_what_is_in_it_and_what_is_damaged",
    "tests/browse/test_browse.py::test_enter_leads_to_records_and_fields_and_escape_back",
    "tests/browse/test_browse.py::test_help_has_every_key",
    "tests/browse/test_browse.py::test_home_and_end_and_pages",
    "tests/browse/test_browse.py::test_pictures[check-80x24-dark]",
    "tests/browse/test_browse.py::test_pictures[help-80x24-dark]",
    "tests/browse/test_browse.py::test_the_mouse_selects_and_opens",
    "tests/browse/test_browse.py::test_the_tree_is_walked_with_keys",
    "tests/browse/test_browse.py::test_without_a_terminal_the_first_screen_is_printed",
    "tests/browse/test_browse_files.py::test_a_growing_file_is_followed",
    "tests/browse/test_browse_files.py::test_a_record_is_copied_as_json",
    "tests/browse/test_browse_files.py::test_filters",
    "tests/browse/test_browse_going.py::test_a_look_up_is_of_the_selected_offset",
    "tests/browse/test_browse_going.py::test_a_view_of_the_whole_disk_and_back",
    "tests/browse/test_browse_going.py::test_findings_are_gone_through_and_explained",
    "tests/browse/test_browse_going.py::test_go_to",
    "tests/browse/test_browse_going.py::test_search_goes_to_hits_and_names_the_command",
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
        if test not in kept and test.partition("[")[0] not in kept:
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
