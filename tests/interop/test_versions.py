"""`kfmt check` predicts the differences between versions of Kafka."""

from __future__ import annotations

import pytest

from kfmt_cli.broker.version import KAFKA_VERSIONS
from tests.support.broken_partitions import ORDERS, TXN, V1_GZIP, name, sample
from tests.support.combined_cases import ENDS, CombinedCase
from tests.support.segments import positions, with_bytes
from tests.support.version_cases import LAST_WRAPPERS, undecodable
from tools import kafka
from tools.fuzz_starts import compare
from tools.observe import Start

RELEASES = [version.observed_on for version in KAFKA_VERSIONS]
SMOKE = (kafka.VERSION, kafka.NEWEST)


def cases() -> list[CombinedCase]:
    """Partitions that versions of Kafka load differently."""
    starts = tuple(Start)
    damaged = [
        CombinedCase(f"{label} wrapper {index}", undecodable(partition, index), 600, 0, starts)
        for label, partition in LAST_WRAPPERS.items()
        for index in (-1, 0, 1)
    ]
    damaged += [
        CombinedCase(f"v1-gzip-0 wrapper {n}", undecodable(V1_GZIP, n), 500, 0, starts)
        for n in (8, 12)
    ]
    data = sample(ORDERS)[name(240)]
    batch_positions = positions(data)
    for n, content in ((5, b""), (0, b""), (11, b"\xff" * 8), (5, bytes(7) + b"\1")):
        hole = content or bytes(batch_positions[n + 1] - batch_positions[n])
        files = {**sample(ORDERS), name(240): with_bytes(data, batch_positions[n], hole)}
        description = f"orders-0 {hole[:8].hex()} over batch {n}"
        damaged.append(CombinedCase(description, files, ENDS[ORDERS], 0, starts))
    for version in (b"\0\1", b"\1\0", b"\xff\xff", b"\x80\0"):
        files = dict(sample(TXN))
        index = name(0, ".txnindex")
        files[index] = version + files[index][2:]
        damaged.append(
            CombinedCase(f"txn-0 entry version {version.hex()}", files, ENDS[TXN], 0, starts)
        )
    return damaged


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize(
    "release",
    [
        pytest.param(release, marks=() if release in SMOKE else pytest.mark.fuzz)
        for release in RELEASES
    ],
)
def test_differences_between_versions_are_predicted(release: str) -> None:
    mismatches = compare(cases(), release)
    messages = [
        f"{case.description} {start.name}: {difference}" for case, start, difference in mismatches
    ]
    assert not messages, "\n".join(messages)
