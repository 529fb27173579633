"""A coordinator ends the transactions that `check` names, and writes a marker in each partition."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.commands.test_replicas import unpacked
from tests.support.samples import kfmt
from tools import kafka
from tools.live import live

pytestmark = [
    pytest.mark.interop,
    pytest.mark.brokers,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
    pytest.mark.timeout(600),
]


def unfinished(data: Path) -> list[str]:
    """What `check` says of the transactions that the coordinator ends."""
    rows = kfmt("check", data, "--notes", "--json").of("finding")
    return [row["message"] for row in rows if row["code"] == "transaction-unfinished"]


def markers(data: Path, partition: str) -> list[str]:
    """The types of the markers of a partition."""
    rows = kfmt("dump", data / partition, "--records", "--json").of("record")
    return [row["control"]["type"] for row in rows if row.get("control")]


@pytest.mark.parametrize("version", [kafka.VERSION, kafka.NEWEST])
def test_the_coordinator_ends_each_transaction_as_noted(version: str, tmp_path: Path) -> None:
    data = unpacked("open-transactions", tmp_path)[0]
    notes = unfinished(data)
    assert {note.partition(":")[0] for note in notes} == {"open", "long"}
    partitions = [
        name
        for note in notes
        for name in re.fullmatch(r".*: an ABORT marker in (.*)", note)[1].split(", ")  # type: ignore[index]
    ]
    before = {name: markers(data, name) for name in partitions}
    with live(version, data, tmp_path):
        end = time.monotonic() + 120
        while unfinished(data) and time.monotonic() < end:
            time.sleep(2)
    assert not unfinished(data)
    for name, types in before.items():
        assert markers(data, name) == types + ["ABORT"] * partitions.count(name)
