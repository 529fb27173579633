"""What the versions of Kafka make differently is what `kfmt check` says for each."""

from __future__ import annotations

import pytest

from kfmt_cli.broker.version import KAFKA_VERSIONS
from tests.support.broken_partitions import ORDERS, V1_GZIP, name, sample
from tests.support.combined_cases import ENDS, Combined
from tests.support.segments import positions, with_bytes
from tests.support.version_cases import LAST_WRAPPERS, undecodable
from tools import kafka
from tools.fuzz_starts import compare
from tools.observe import Start

RELEASES = [version.observed_on for version in KAFKA_VERSIONS]
SMOKE = (kafka.VERSION, kafka.NEWEST)


def cases() -> list[Combined]:
    """Partitions of which versions differ."""
    every = tuple(Start)
    found = [
        Combined(f"{of} wrapper {number}", undecodable(partition, number), 600, 0, every)
        for of, partition in LAST_WRAPPERS.items()
        for number in (-1, 0, 1)
    ]
    found += [
        Combined(f"v1-gzip-0 wrapper {n}", undecodable(V1_GZIP, n), 500, 0, every) for n in (8, 12)
    ]
    data = sample(ORDERS)[name(240)]
    places = positions(data)
    for n, content in ((5, b""), (0, b""), (11, b"\xff" * 8), (5, bytes(7) + b"\1")):
        hole = content or bytes(places[n + 1] - places[n])
        files = {**sample(ORDERS), name(240): with_bytes(data, places[n], hole)}
        what = f"orders-0 {hole[:8].hex()} over batch {n}"
        found.append(Combined(what, files, ENDS[ORDERS], 0, every))
    return found


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize(
    "release",
    [pytest.param(name, marks=() if name in SMOKE else pytest.mark.fuzz) for name in RELEASES],
)
def test_what_versions_make_differently_is_foretold(release: str) -> None:
    wrong = compare(cases(), release)
    words = [f"{case.what} {start.name}: {found}" for case, start, found in wrong]
    assert not words, "\n".join(words)
