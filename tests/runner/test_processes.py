"""The tests of a file, which may share a fixture that is expensive, run in one process."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("number", range(6))
def test_a_file_stays_in_one_process(
    number: int, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not hasattr(request.config, "workerinput"):
        pytest.skip("there is one process only (-n 0)")
    log = tmp_path_factory.getbasetemp().parent / "processes"  # of this run, of all its processes
    with log.open("a") as out:
        out.write(f"{os.getpid()} {number}\n")
    assert {line.split()[0] for line in log.read_text().splitlines()} == {str(os.getpid())}
