"""The tests that .ci/long runs are chosen from the durations of a run."""

from __future__ import annotations

from pathlib import Path

from tools.kafka import ROOT
from tools.long_tests import KEPT, choose_long_tests, file_of, read_durations, shorten

DURATIONS = {"a.py::f[1]": 5.0, "a.py::f[2]": 4.0, "a.py::g": 1.0, "b.py::h": 9.0, "c.py::i": 0.5}


def test_the_slowest_move_but_the_quickest_of_a_file_stays() -> None:
    assert choose_long_tests(DURATIONS, 20.0) == set()
    assert choose_long_tests(DURATIONS, 15.0) == {"a.py::f[1]"}
    assert choose_long_tests(DURATIONS, 1.0) == {"a.py::f[1]", "a.py::f[2]"}
    assert choose_long_tests({KEPT[0]: 99.0, f"{file_of(KEPT[0])}::x": 1.0}, 1.0) == set()


def test_a_function_has_one_line_if_all_its_cases_move() -> None:
    assert shorten({"a.py::f[1]"}, DURATIONS) == ["a.py::f[1]"]
    assert shorten({"a.py::f[1]", "a.py::f[2]", "b.py::h"}, DURATIONS) == ["a.py::f", "b.py::h"]


def test_a_report_of_pytest_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.log.test_x" name="test_y[a::b]" '
        'time="0.25"/></testsuite></testsuites>'
    )
    assert read_durations(report) == {"tests/log/test_x.py::test_y[a::b]": 0.25}


def test_the_kept_tests_exist() -> None:
    for test in KEPT:
        function = test.partition("::")[2].partition("[")[0]
        assert f"def {function}(" in (ROOT / file_of(test)).read_text()
