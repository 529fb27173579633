"""cat --latest: the latest record of each key, without tombstones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.samples import Row, kfmt
from tools.kafka import SAMPLES

COMPACTED = SAMPLES / "kafka-3.9.1-broker1/compacted-0"


def built(folder: Path, *rows: Row) -> Path:
    """A partition of these records."""
    lines = "\n".join(map(json.dumps, rows)).encode()
    done = kfmt("build", "-", folder / "t-0", "--batch-records", "2", stdin=lines)
    assert done.code == 0, done.err
    return folder / "t-0"


def pairs(*arguments: str | Path) -> list[str]:
    """Offset, key and value of what is written."""
    done = kfmt("cat", *arguments, "-f", "%o %k=%s\\n")
    assert done.code == 0, done.err
    return done.out.splitlines()


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
    return built(tmp_path, *rows)


def test_the_latest_of_each_key_without_tombstones(partition: Path) -> None:
    assert pairs(partition, "--latest") == ["2 a=2", "5 =", "7 c=back"]


def test_filters_choose_first(partition: Path) -> None:
    assert pairs(partition, "--latest", "--to-offset", "1") == ["0 a=1", "1 b=1"]
    assert pairs(partition, "--latest", "--limit", "1") == ["2 a=2"]


def test_partitions_do_not_share_keys(partition: Path, tmp_path: Path) -> None:
    other = built(tmp_path / "other", {"key": "a", "value": "0"})
    assert pairs(partition, other, "--latest")[-1] == "0 a=0"
    assert "2 a=2" in pairs(partition, other, "--latest")


def test_a_compacted_sample_has_what_a_dict_would_keep() -> None:
    latest: dict[str, Row] = {}
    for row in kfmt("dump", COMPACTED, "--records", "--json").of("record"):
        if row["key"] is not None and "control" not in row:
            latest[row["key"]] = row
    kept = sorted(row["offset"] for row in latest.values() if row["value"] is not None)
    assert kept
    assert [int(line.split()[0]) for line in pairs(COMPACTED, "--latest")] == kept


@pytest.mark.parametrize("other", [("--last", "2"), ("--follow",)])
def test_what_cannot_be_combined(partition: Path, other: tuple[str, ...]) -> None:
    done = kfmt("cat", partition, "--latest", *other)
    assert done.code == 2
    assert "--latest" in done.err
