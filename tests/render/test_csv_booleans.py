"""Booleans are written alike by every command that writes CSV."""

from __future__ import annotations

import csv
import io

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKERS = [SAMPLES / "kafka-3.9.1-broker1", SAMPLES / "kafka-3.9.1-broker2"]


@pytest.mark.parametrize(
    ("words", "column"),
    [
        (("retention", BROKERS[0] / "orders-0"), "active"),
        (("replicas", *BROKERS), "clean_shutdown"),
        (("dump", BROKERS[0] / "orders-0"), "attributes.transactional"),
    ],
    ids=["retention", "replicas", "dump"],
)
def test_booleans_are_those_of_json(words: tuple[str, ...], column: str) -> None:
    rows = list(csv.DictReader(io.StringIO(kfmt(*words, "--format", "csv").out)))
    name = next(key for key in rows[0] if key.split(".")[-1] == column.rsplit(".", maxsplit=1)[-1])
    assert {row[name] for row in rows} <= {"true", "false", ""}
    assert {row[name] for row in rows} & {"true", "false"}
