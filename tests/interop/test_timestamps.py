"""`kfmt find --timestamp` names the offset that a real broker answers, if it is another one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tests.support.timestamp_cases import LATE_MS, PROBES, TimestampCase, timestamp_cases
from tools import kafka
from tools.observe import Given, Plan, Start, observe


def predicted_answer(case: TimestampCase, timestamp: int, directory: Path) -> int | str | None:
    """The answer of a broker according to kfmt."""
    partition = directory / "given-0"
    partition.mkdir(parents=True, exist_ok=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
        modified = case.modified.get(file, LATE_MS) / 1000
        os.utime(partition / file, (modified, modified))
    result = kfmt("find", partition, "--timestamp", str(timestamp), "--json")
    other = re.search(r"a broker answers (no offset|offset (\d+)|an error)", result.err)
    if other is None:
        rows = result.of("found")
        return int(rows[0]["offset"]) if rows else None
    return int(other[2]) if other[2] else None if other[1] == "no offset" else other[1]


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("version", ["3.9.1", kafka.NEWEST])
def test_a_broker_answers_what_find_says(version: str, tmp_path: Path) -> None:
    cases = list(timestamp_cases())
    partitions = {
        f"given{i}": Given(
            case.files,
            1500,
            (),
            times=PROBES,
            modified=dict.fromkeys(case.files, LATE_MS) | case.modified,
        )
        for i, case in enumerate(cases)
    }
    (outcome,) = observe([Plan(Start.CLEAN, partitions)], version)
    assert outcome.up, outcome.errors
    for i, case in enumerate(cases):
        answers = [predicted_answer(case, probe, tmp_path / f"{i}") for probe in PROBES]
        assert answers == outcome.partitions[f"given{i}"].times, case.description
