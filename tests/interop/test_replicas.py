"""`kfmt diff` predicts how two real brokers reconcile two replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_diff import built, verdict
from tests.support.samples import kfmt
from tools import kafka
from tools.replicas import EPOCHS, meet

Batches = list[tuple[int, int, str]]
COMMON: Batches = [(n, 0, "both") for n in range(0, 100, 10)]


def batches(first: int, end: int, epoch: int, value: str) -> Batches:
    return [(n, epoch, value) for n in range(first, end, 10)]


CASES: dict[str, tuple[Batches, Batches]] = {
    "a fork, each with epochs of its own": (
        [*COMMON, *batches(100, 150, 4, "one")],
        [*COMMON, *batches(100, 200, 2, "two")],
    ),
    "the later epoch is on the shorter side": (
        [*COMMON, *batches(100, 110, 3, "one")],
        [*COMMON, *batches(100, 300, 1, "two")],
    ),
    "a fork after epochs that both have": (
        [*COMMON, *batches(100, 120, 1, "both"), *batches(120, 140, 5, "one")],
        [*COMMON, *batches(100, 160, 1, "both"), *batches(160, 180, 2, "two")],
    ),
    "a fork below epochs that the other one does not know": (
        [*COMMON[:5], *batches(50, 90, 6, "one")],
        [*COMMON, *batches(100, 120, 2, "two"), *batches(120, 140, 3, "two")],
    ),
}


@pytest.mark.brokers
@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
def test_the_later_epoch_stays_and_the_other_replica_is_cut_where_diff_says(
    tmp_path: Path,
) -> None:
    pairs: list[tuple[Path, Path]] = []
    verdicts: list[dict[str, Any]] = []
    truncated = (built(tmp_path / "t-a/t-0", COMMON), built(tmp_path / "t-b/t-0", COMMON[:7]))
    for i, (leader, follower) in enumerate(CASES.values()):
        pair = (
            built(tmp_path / f"{i}-a/t-0", leader),
            built(tmp_path / f"{i}-b/t-0", follower),
        )
        for directory, replica_batches in zip(pair, (leader, follower), strict=True):
            starts: dict[int, int] = {}
            for first, epoch, _ in replica_batches:
                starts.setdefault(epoch, first)
            lines = [f"{epoch} {first}" for epoch, first in starts.items()]
            (directory / EPOCHS).write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        pairs.append(pair)
        verdicts.append(verdict(kfmt("diff", *pair, "--json")))
        reversed_verdict = verdict(kfmt("diff", *reversed(pair), "--json"))
        assert (verdicts[-1]["later"], reversed_verdict["later"], reversed_verdict["cut_to"]) == (
            "A",
            "B",
            verdicts[-1]["cut_to"],
        )
    *outcomes, truncated_outcome = meet([*pairs, truncated])
    for name, row, outcome in zip(CASES, verdicts, outcomes, strict=True):
        assert outcome.logs[0] == outcome.logs[1], name
        assert outcome.cut_to, name
        assert outcome.cut_to[-1] == row["cut_to"], (name, outcome.cut_to, row)
    assert verdict(kfmt("diff", *truncated, "--json"))["verdict"] == "consistent"
    assert truncated_outcome.logs[0] == truncated_outcome.logs[1]
    assert all(offset >= 70 for offset in truncated_outcome.cut_to)
