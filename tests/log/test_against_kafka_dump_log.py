"""Every batch and record of every sample, field by field, as kafka-dump-log prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dump_log import check, parse
from tests.support.samples import kfmt, recorded_texts, sample_name
from tools.kafka import SAMPLES, dump_samples, missing

SAMPLE_TEXTS = list(recorded_texts())


@pytest.fixture(scope="module")
def dumped() -> dict[str, list[dict[str, object]]]:
    """kfmt's rows of every sample, by file."""
    result = kfmt("dump", SAMPLES, "--records", "--json")
    assert result.code == 0, result.err
    rows: dict[str, list[dict[str, object]]] = {}
    for row in result.rows:
        rows.setdefault(row["file"], []).append(row)
    return rows


@pytest.mark.parametrize(
    ("log", "text"), SAMPLE_TEXTS, ids=[sample_name(log) for log, _ in SAMPLE_TEXTS]
)
def test_fields_are_those_of_the_kept_text(
    log: Path, text: str, dumped: dict[str, list[dict[str, object]]]
) -> None:
    kafka_rows, kfmt_rows = parse(text), dumped.get(str(log), [])
    assert len(kafka_rows) == len(kfmt_rows)
    for kafka_row, kfmt_row in zip(kafka_rows, kfmt_rows, strict=True):
        check(kafka_row, kfmt_row)


@pytest.mark.interop
def test_the_real_tool_prints_the_kept_texts() -> None:
    if reason := missing():
        pytest.skip(reason)
    assert dump_samples() == dict(SAMPLE_TEXTS)
