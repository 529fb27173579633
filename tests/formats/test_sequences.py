"""Sequence numbers of producers: after the greatest comes 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.samples import kfmt

GREATEST = (1 << 31) - 1


@pytest.mark.parametrize(
    ("base_sequence", "sequences"),
    [
        (GREATEST - 2, [GREATEST - 2, GREATEST - 1, GREATEST]),
        (GREATEST - 1, [GREATEST - 1, GREATEST, 0]),
        (GREATEST, [GREATEST, 0, 1]),
        (0, [0, 1, 2]),
    ],
)
def test_the_sequence_after_the_greatest_is_0(
    base_sequence: int, sequences: list[int], tmp_path: Path
) -> None:
    directory = tmp_path / "t-0"

    def build(next_sequence: int) -> None:
        """Build a batch of three records, and one after it with this sequence number."""
        producer = {"producer_id": 5, "producer_epoch": 0}
        lines = [
            {"type": "batch", "base_offset": 0, "base_sequence": base_sequence, **producer},
            *({"type": "record", "offset": offset, "value": "a"} for offset in range(3)),
            {"type": "batch", "base_offset": 3, "base_sequence": next_sequence, **producer},
            {"type": "record", "offset": 3, "value": "a"},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        result = kfmt("build", "-", directory, "--force", stdin=text.encode())
        assert result.code == 0, result.err

    next_sequence = (sequences[-1] + 1) % (GREATEST + 1)
    build(next_sequence)
    rows = kfmt("dump", directory, "--records", "--json").of("record")
    assert [row["sequence"] for row in rows] == [*sequences, next_sequence]
    table = kfmt("dump", directory / f"{0:020}.log").out
    assert f" {sequences[0]}–{sequences[-1]} " in table
    assert len({line.index("✓") for line in table.splitlines() if "✓" in line}) == 1
    assert kfmt("check", directory, "--json").codes == []
    build(next_sequence + 1)
    assert kfmt("check", directory, "--json").codes == ["producer-sequence-gap"]
