"""`kfmt check` predicts what Kafka's own code does with partitions with two and three damages."""

from __future__ import annotations

import pytest

from tests.support.combined_cases import combined
from tools import kafka
from tools.fuzz_starts import compare

LONG = pytest.mark.fuzz
SEEDS = [
    *((1, 6, version) for version in (kafka.VERSION, kafka.NEWEST)),
    *(
        pytest.param(seed, 60, version, marks=LONG)
        for seed in (11, 12)
        for version in (kafka.VERSION, "4.0.0", "4.1.0", kafka.NEWEST)
    ),
]


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize(("seed", "count", "version"), SEEDS)
def test_starts_of_combined_damages_are_predicted(seed: int, count: int, version: str) -> None:
    mismatches = compare(list(combined(seed, count)), version)
    messages = [
        f"{case.description} {start.name}: {difference}" for case, start, difference in mismatches
    ]
    assert not messages, "\n".join(messages)
