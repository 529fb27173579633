"""`kfmt state` of a broker with several log directories: what one of them lacks is in another."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
LAGS = ("log_end_offset", "lag")


def committed_offsets(*paths: Path) -> list[dict[str, Any]]:
    """The committed offsets with their lags."""
    rows = kfmt("state", *paths, "--json").of("committed_offset")
    names = ("group", "topic", "partition", "offset", *LAGS)
    return [{name: row[name] for name in names} for row in rows]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sample's log directory as two: the internal topics, and the others."""
    internal, others = (tmp_path_factory.mktemp(name) for name in ("internal", "others"))
    for path in BROKER.iterdir():
        if path.is_dir():
            shutil.copytree(path, (internal if path.name[0] == "_" else others) / path.name)
    for directory in (internal, others):
        shutil.copy(BROKER / "meta.properties", directory)
    return internal, others


def test_the_log_directories_of_a_broker_are_one(directories: tuple[Path, Path]) -> None:
    internal, others = directories
    expected = committed_offsets(BROKER)
    assert any(row["lag"] is not None for row in expected)
    without_ends = [row | dict.fromkeys(LAGS) for row in expected]
    of_internal_topics = [
        row if row["topic"].startswith("__") else without
        for row, without in zip(expected, without_ends, strict=True)
    ]
    assert committed_offsets(internal) == of_internal_topics
    assert committed_offsets(internal, others) == expected
    assert committed_offsets(others, internal) == expected
    assert kfmt("state", internal, others).code == 0
    assert kfmt("state", others).code == 3


@pytest.mark.parametrize("change", ["node.id=1", "cluster.id=", "no file"])
def test_a_directory_of_another_broker_does_not_count(
    directories: tuple[Path, Path], tmp_path: Path, change: str
) -> None:
    internal, others = directories
    other_broker = tmp_path / "others"
    shutil.copytree(others, other_broker)
    meta_properties = other_broker / "meta.properties"
    if change == "no file":
        meta_properties.unlink()
    else:
        text = meta_properties.read_text()
        assert change in text
        meta_properties.write_text(text.replace(change, f"{change}2"))
    assert committed_offsets(internal, other_broker) == committed_offsets(internal)
