"""cat --latest: the latest record of each key, without tombstones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.samples import Row, kfmt
from tools.kafka import SAMPLES

COMPACTED = SAMPLES / "kafka-3.9.1-broker1/compacted-0"


def build_partition(directory: Path, *rows: Row) -> Path:
    """Build a partition of these records."""
    lines = "\n".join(map(json.dumps, rows)).encode()
    result = kfmt("build", "-", directory / "t-0", "--batch-records", "2", stdin=lines)
    assert result.code == 0, result.err
    return directory / "t-0"


def pairs(*arguments: str | Path) -> list[str]:
    """Offset, key and value of each record in the output."""
    result = kfmt("cat", *arguments, "-f", "%o %k=%s\\n")
    assert result.code == 0, result.err
    return result.out.splitlines()


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    rows: list[Row] = [
        {"key": "a", "value": "1"},
        {"key": "b", "value": "1"},
        {"key": "a", "value": "2"},
        {"key": None, "value": "no key"},
        {"key": "b", "value": None},
        {"key": "", "value": ""},
        {"key": "c", "value": None},
        {"key": "c", "value": "back"},
    ]
    return build_partition(tmp_path, *rows)


def test_the_latest_of_each_key_without_tombstones(partition: Path) -> None:
    assert pairs(partition, "--latest") == ["2 a=2", "5 =", "7 c=back"]


def test_filters_choose_first(partition: Path) -> None:
    assert pairs(partition, "--latest", "--to-offset", "1") == ["0 a=1", "1 b=1"]
    assert pairs(partition, "--latest", "--limit", "1") == ["2 a=2"]


def test_partitions_do_not_share_keys(partition: Path, tmp_path: Path) -> None:
    other = build_partition(tmp_path / "other", {"key": "a", "value": "0"})
    assert pairs(partition, other, "--latest")[-1] == "0 a=0"
    assert "2 a=2" in pairs(partition, other, "--latest")


def test_a_compacted_sample_has_what_a_dict_would_keep() -> None:
    latest: dict[str, Row] = {}
    for row in kfmt("dump", COMPACTED, "--records", "--json").of("record"):
        if row["key"] is not None and "control" not in row:
            latest[row["key"]] = row
    expected = sorted(row["offset"] for row in latest.values() if row["value"] is not None)
    assert expected
    assert [int(line.split()[0]) for line in pairs(COMPACTED, "--latest")] == expected


@pytest.mark.parametrize("other", [("--last", "2"), ("--follow",)])
def test_what_cannot_be_combined(partition: Path, other: tuple[str, ...]) -> None:
    result = kfmt("cat", partition, "--latest", *other)
    assert result.code == 2
    assert "--latest" in result.err
