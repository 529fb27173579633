"""`kfmt build` of batches without records, wherever the lines are divided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfmt_cli.writers.build import builder as builder_module
from tests.support.samples import kfmt


@pytest.mark.parametrize("n_buffered_lines", [1, 2, 3, 1 << 16])
def test_a_batch_waits_for_its_records_but_not_at_the_end(
    n_buffered_lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder_module, "MIN_BUFFERED_LINES", n_buffered_lines)
    lines = [
        {"type": "batch", "base_offset": 0},
        {"type": "record", "offset": 0, "value": "a"},
        {"type": "record", "offset": 1, "value": "a"},
        {"type": "batch", "base_offset": 2, "last_offset_delta": 4},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert kfmt("build", "-", tmp_path / "t-0", stdin=text.encode()).code == 0
    batches = kfmt("dump", tmp_path / "t-0", "--json").of("batch")
    assert [(row["base_offset"], row["last_offset"]) for row in batches] == [(0, 1), (2, 6)]
    assert [row["records_count"] for row in batches] == [2, 0]
