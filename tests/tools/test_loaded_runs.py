"""A run next to busy loops names the tests that failed."""

from __future__ import annotations

from tools.loaded_runs import busy_loops, failed_tests

OUTPUT = """\
=========================== short test summary info ============================
FAILED tests/log/test_x.py::test_y[a - b] - AssertionError: assert 1 == 2
FAILED tests/log/test_x.py::test_z
ERROR tests/core/test_w.py - ImportError: no module
SKIPPED [1] tests/spark/test_v.py:77: no jars
"""


def test_failed_tests_are_those_of_the_summary() -> None:
    assert failed_tests(OUTPUT)[1:] == ["tests/log/test_x.py::test_z", "tests/core/test_w.py"]
    assert failed_tests(OUTPUT)[0].startswith("tests/log/test_x.py::test_y[a")


def test_the_loops_end() -> None:
    with busy_loops(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert None not in [process.poll() for process in processes]
