"""The time of the README's second command is divided into the parts that take it."""

from __future__ import annotations

from tools.kafka import ROOT
from tools.second_command import command_parts, pip_steps, suite_parts

PIP_LOG = """\
2026-11-28T14:00:00,000 Collecting click>=8.2.2
2026-11-28T14:00:05,500 Collecting pyspark>=4.0
2026-11-28T14:00:20,000 Building wheels for collected packages: pyspark, kfmt-cli
2026-11-28T14:00:20,250   Building wheel for pyspark (pyproject.toml): started
2026-11-28T14:00:31,250   Building wheel for pyspark (pyproject.toml): finished with status 'done'
2026-11-28T14:00:32,000   Building editable for kfmt-cli (pyproject.toml): started
a line without a time
2026-11-28T14:00:40,000 Installing collected packages: pyspark, kfmt-cli
2026-11-28T14:00:52,000 Successfully installed kfmt-cli-1.0.0
"""


def test_readme_has_the_second_command() -> None:
    parts = command_parts((ROOT / "README.md").read_text())
    assert len(parts) == 3
    assert "pip install" in parts[1]
    assert "pytest" in parts[2]


def test_pip_is_divided_into_its_steps() -> None:
    steps = {part.name.strip(): part.seconds for part in pip_steps(PIP_LOG.splitlines())}
    assert steps == {
        "start": 0.0,
        "resolve and download": 20.25,
        "build the wheel of pyspark": 11.75,
        "build kfmt (kfmt-cli)": 8.0,
        "unpack": 12.0,
    }


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
