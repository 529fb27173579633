"""Records of the metadata log that came after kfmt: each command that uses the log says so, and
judges nothing by the rest."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from tests.support.rebuild import with_crc
from tests.support.samples import kfmt
from tests.support.segments import positions, with_bytes
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
NO_OP, UNKNOWN_TYPE = b"\x01\x14\x00\x00", b"\x01\x63\x00\x00"
SKIPPED = "of an unknown type or version was skipped: type 99"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A log directory whose metadata log ends with a record of an unknown type."""
    directory = tmp_path / "disk"
    shutil.copytree(BROKER, directory)
    log = max(directory.glob("__cluster_metadata-0/*.log"))
    data = log.read_bytes()
    place = data.rindex(NO_OP)
    for start, end in itertools.pairwise(positions(data)):
        if start <= place < end:
            batch = with_crc(with_bytes(data, place, UNKNOWN_TYPE)[start:end])
            log.write_bytes(data[:start] + batch + data[end:])
            return directory
    raise AssertionError("no batch with a NoOpRecord")


@pytest.mark.parametrize(
    "arguments",
    [
        ("state", "disk/__cluster_metadata-0"),
        ("check", "disk"),
        ("replicas", "disk"),
        ("report", "disk", "--to", "report.html"),
        ("retention", "disk/orders-0"),
        ("replay", "disk", "--bootstrap-server", "127.0.0.1:1", "--dry-run"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_is_skipped_is_said(disk: Path, arguments: tuple[str, ...]) -> None:
    result = kfmt(*arguments, cwd=disk.parent)
    assert SKIPPED in " ".join(result.err.split())


def test_no_start_is_judged_by_half_a_metadata_log(disk: Path) -> None:
    """A partition that the known part of the log does not contain is not stray."""
    (disk / "orders-0").rename(disk / "later-0")
    metadata = disk / "later-0/partition.metadata"
    metadata.write_text("version: 0\ntopic_id: 2aaaaaaaQaaaaaaaaaaaaa")
    rows = kfmt("check", disk, "--json").of("broker_start")
    assert rows
    assert not any(row["becomes"] == "stray" for row in rows)
    (partition_rows, *_) = [kfmt("replicas", disk, "--json").of("replicas")]
    assert all(row["leader"] is None for row in partition_rows)
