"""A node of another version than its metadata log: `check` predicts which versions start."""

from __future__ import annotations

import shutil
import struct
from functools import cache
from pathlib import Path

import pytest

from kfmt_cli.broker.version import KAFKA_VERSIONS
from tests.support.broken_partitions import ORDERS, sample
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import with_bytes
from tools import kafka
from tools.directories import Seen, run_on, start_all

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
    pytest.mark.fuzz,
]
LEVELS = [
    *(("share.version", level) for level in (1, 2, 3)),
    *(("transaction.version", level) for level in (1, 3)),
    *(("eligible.leader.replicas.version", level) for level in (1, 2)),
    *(("kraft.version", level) for level in (1, 2)),
    *(("group.version", 1), ("streams.version", 1), ("future.version", 0), ("future.version", 1)),
]
RELEASES = {version.name: version.observed_on for version in KAFKA_VERSIONS}


@pytest.fixture(scope="module", params=list(RELEASES))
def disks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a node that a version has formatted, started and stopped."""
    directory = tmp_path_factory.mktemp(request.param)
    run_on({"victim": sample(ORDERS)}, directory, version=RELEASES[request.param])
    return directory


def version_of(disks: Path) -> str:
    """The version that has written the disks, to whose name pytest appends a number."""
    return disks.name.removesuffix("0")


@cache
def observed(disks: Path, version: str) -> Seen:
    """The start of a version on these disks."""
    [seen] = start_all(disks, [lambda _: None], ("victim",), RELEASES[version])
    return seen


@pytest.mark.parametrize("version", list(RELEASES))
def test_versions_start_as_predicted(disks: Path, version: str) -> None:
    result = kfmt("check", disks / "one", "--kafka-version", version, "--json")
    reasons = [row["reason"] or "" for row in result.of("broker_start") if not row["starts"]]
    seen = observed(disks, version)
    assert seen.up == (not reasons)
    sentences = [reason.partition("does not support: ")[2] for reason in reasons]
    for sentence in sentences:
        # Some stop earlier, at a record of a later version.
        if sentence.startswith("No MetadataVersion") and "No MetadataVersion" in str(seen.errors):
            assert sentence.partition(". ")[0] in str(seen.errors)


def test_the_plan_names_every_version_that_starts(disks: Path) -> None:
    up = [name for name in RELEASES if observed(disks, name).up]
    assert up
    for version in set(RELEASES) - set(up):
        result = kfmt("check", disks / "one", "--kafka-version", version, "--json")
        assert [step["command"] for step in result.of("next")] == [
            f"# use Kafka {' or '.join(up)} for this disk"
        ]


def test_4_4_keeps_the_metadata_logs_indexes_preallocated(disks: Path) -> None:
    metadata_log = disks / "one/__cluster_metadata-0"
    sizes = {path.suffix: path.stat().st_size for path in metadata_log.glob("*index")}
    result = kfmt("check", disks / "one", "--json")
    is_kept = version_of(disks) == "4.4"
    assert (sizes[".index"] == 10 << 20) is is_kept
    assert result.codes.count("index-preallocated") == 2 * is_kept


def set_level(disks: Path, feature: str, level: int) -> None:
    """Append a FeatureLevelRecord to the metadata log."""
    name = feature.encode()
    message = bytes([1, 12, 0, len(name) + 1]) + name + struct.pack(">hB", level, 0)
    log = max((disks / "one/__cluster_metadata-0").glob("*.log"))
    last = kfmt("dump", log, "--json").of("batch")[-1]
    batch = batch_of(record(None, message), 0, 1, last["last_offset"] + 1)
    epoch = struct.pack(">i", last["partition_leader_epoch"])
    log.write_bytes(log.read_bytes() + with_crc(with_bytes(batch, 12, epoch)))


def test_levels_of_other_features_stop_a_controller(disks: Path, tmp_path: Path) -> None:
    version = version_of(disks)
    changes = [lambda path, level=level: set_level(path, *level) for level in LEVELS]
    for i, seen in enumerate(start_all(disks, changes, ("victim",), RELEASES[version])):
        copy = tmp_path / str(i)
        shutil.copytree(disks, copy)
        changes[i](copy)
        result = kfmt("check", copy / "one", "--kafka-version", version, "--json")
        reasons = {row["reason"] for row in result.of("broker_start") if not row["starts"]}
        assert seen.up == (not reasons), (LEVELS[i], seen.errors)
        for reason in reasons:
            assert reason.partition("does not support: ")[2] in str(seen.errors)
