"""The time of the README's second command is divided into the parts that take it."""

from __future__ import annotations

from tools.kafka import ROOT
from tools.second_command import command_parts, suite_parts


def test_readme_has_the_second_command() -> None:
    parts = command_parts((ROOT / "README.md").read_text())
    assert ["venv" in parts[0], "uv" in parts[1], "'.[dev,spark]'" in parts[2]] == [True] * 3
    assert "pytest" in parts[3]


def test_tests_are_summed_by_room_and_the_slowest_are_first() -> None:
    lines = [
        (1.0, "created: 2/2 workers"),
        (9.5, "[  0%] tests/core/test_varint.py            9 passed     0.5 s"),
        (12.0, "tests/log/test_reader.py::test_x 16 s"),
        (30.0, "[ 60%] tests/log/test_reader.py            9 passed, 1 skipped    12.0 s"),
        (31.0, "[100%] tests/log/test_batch.py             1 passed     1.0 s"),
    ]
    assert [(part.name.strip(), part.seconds) for part in suite_parts(lines)] == [
        ("until the first file is finished", 9.5),
        ("log", 13.0),
        ("core", 0.5),
        ("tests/log/test_reader.py", 12.0),
        ("tests/log/test_batch.py", 1.0),
        ("tests/core/test_varint.py", 0.5),
    ]
