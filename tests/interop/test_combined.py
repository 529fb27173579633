"""What `kfmt check` says of partitions with two and three damages is what Kafka's own code does."""

from __future__ import annotations

import pytest

from tests.support.combined_cases import combined
from tools import kafka
from tools.fuzz_starts import compare

LONG = pytest.mark.fuzz
SEEDS = [(1, 6), pytest.param(2, 60, marks=LONG), pytest.param(5, 60, marks=LONG)]


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_starts_of_combined_damages_are_foretold(seed: int, count: int) -> None:
    wrong = compare(list(combined(seed, count)))
    words = [f"{case.what} {start.name}: {found}" for case, start, found in wrong]
    assert not words, "\n".join(words)
