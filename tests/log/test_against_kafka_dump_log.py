"""Every batch and record of every sample, field by field, as kafka-dump-log prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dump_log import check, parse
from tests.support.samples import kept_texts, kfmt, name_of
from tools.kafka import SAMPLES, VERSION, dump_log, missing, sample_logs

KEPT = list(kept_texts())


@pytest.fixture(scope="module")
def dumped() -> dict[str, list[dict[str, object]]]:
    """kfmt's rows of every sample, by file."""
    done = kfmt("dump", SAMPLES, "--records", "--json")
    assert done.code == 0, done.err
    rows: dict[str, list[dict[str, object]]] = {}
    for row in done.rows:
        rows.setdefault(row["file"], []).append(row)
    return rows


@pytest.mark.parametrize(("log", "text"), KEPT, ids=[name_of(log) for log, _ in KEPT])
def test_fields_are_those_of_the_kept_text(
    log: Path, text: str, dumped: dict[str, list[dict[str, object]]]
) -> None:
    theirs, ours = parse(text), dumped.get(str(log), [])
    assert len(theirs) == len(ours)
    for their_row, our_row in zip(theirs, ours, strict=True):
        check(their_row, our_row)


@pytest.mark.interop
def test_the_real_tool_prints_the_kept_texts() -> None:
    if gone := missing():
        pytest.skip(gone)
    logs = sample_logs()
    assert dump_log(VERSION, logs, SAMPLES) == dict(KEPT)
