"""check: log directories of another broker, copies, and missing replicas."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKER_1, BROKER_2 = SAMPLES / "kafka-3.9.1-broker1", SAMPLES / "kafka-3.9.1-broker2"
META = "meta.properties"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    shutil.copytree(BROKER_1, tmp_path / "disk")
    return tmp_path / "disk"


def test_a_disk_with_the_node_of_another_broker_is_one_error(disk: Path) -> None:
    text = (disk / META).read_text()
    (disk / META).write_text(text.replace("node.id=1", "node.id=2"))
    result = kfmt("check", disk, "--json")
    [finding] = [row for row in result.of("finding") if row["severity"] == "error"]
    assert (finding["code"], finding["expected"], finding["found"]) == ("owner-contradicted", 1, 2)
    assert finding["file"] == f"{disk}/{META}"
    assert "directory.id Id4qCpYkZMw8zR87hsZyqQ to broker 1" in finding["message"]
    output = kfmt("check", disk).out
    assert "19 partitions are not served, as this is another broker's log directory" in output
    assert "failing start" not in output


def test_a_disk_with_the_identity_of_another_broker_is_known_by_its_partitions(disk: Path) -> None:
    shutil.copy(BROKER_2 / META, disk / META)
    result = kfmt("check", disk, "--json")
    [finding] = [row for row in result.of("finding") if row["severity"] == "error"]
    assert finding["code"] == "owner-contradicted"
    assert finding["message"].endswith("assigns every partition here to broker 1")


def test_a_directory_and_its_copy_have_the_same_id(disk: Path, tmp_path: Path) -> None:
    shutil.copytree(disk, tmp_path / "copy")
    result = kfmt("check", disk, tmp_path / "copy", "--json")
    [finding] = [row for row in result.of("finding") if row["severity"] == "error"]
    assert finding["message"] == f"directory.id duplicates that of {disk}"
    assert not any(row["starts"] for row in result.of("log_directory"))
    # Below one directory, each is a separate broker.
    assert kfmt("check", tmp_path).code == 0


def test_directories_of_two_brokers_are_two_brokers(disk: Path) -> None:
    result = kfmt("check", disk, BROKER_2, "--json")
    assert result.code == 0
    assert [row["starts"] for row in result.of("log_directory")] == [True, True]


@pytest.mark.parametrize(
    ("voters", "is_alone"),
    [
        ('[{"voterId":1}]', True),
        ('[{"voterId":1},{"voterId":2}]', False),
        ("[]", False),
        ('[{"voterIe":1}]', None),
        ("[7]", None),
        ("7", None),
    ],
)
def test_a_metadata_log_is_alone_if_there_is_one_voter(
    voters: str, is_alone: bool | None, disk: Path
) -> None:
    """Then no other controller restores what is missing in the log. None: the broker stops before,
    at the malformed file."""
    (disk / ".kafka_cleanshutdown").unlink()
    for snapshot in (disk / "__cluster_metadata-0").glob("*.checkpoint"):
        snapshot.unlink()
    log = disk / f"__cluster_metadata-0/{0:020}.log"
    data = bytearray(log.read_bytes())
    data[6000:6200] = bytes(200)
    log.write_bytes(data)
    (disk / "__cluster_metadata-0/quorum-state").write_text(
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        f'"currentVoters":{voters},"data_version":0}}'
    )
    codes = [row["code"] for row in kfmt("check", disk, "--json").of("finding")]
    assert ("partition-set-aside" in codes) is (is_alone is True)
    assert ("quorum-state-malformed" in codes) is (is_alone is None)
    assert kfmt("replicas", disk, "--json").of("replica")


def test_a_replica_that_moves_names_the_one_it_replaces(disk: Path) -> None:
    shutil.copytree(disk / "orders-0", disk / f"orders-0.{'a' * 32}-future")
    result = kfmt("check", disk, "--json")
    [finding] = [row for row in result.of("finding") if row["code"] == "replica-moving"]
    assert finding["message"] == f"replaces {disk}/orders-0"


def test_a_replica_that_is_not_there_is_an_error(disk: Path) -> None:
    shutil.rmtree(disk / "replicated-0")
    result = kfmt("check", disk, "--json")
    [finding] = [row for row in result.of("finding") if row["severity"] == "error"]
    assert (finding["code"], finding["file"]) == ("replica-missing", str(disk))
    assert finding["message"] == "no directory for replicated-0"
    # The only replica cannot empty another.
    shutil.copytree(BROKER_1 / "replicated-0", disk / "replicated-0")
    shutil.rmtree(disk / "orders-0")
    assert kfmt("check", disk).code == 0


@pytest.mark.parametrize("broken", ["one", "two"])
def test_a_broker_starts_without_any_log_directory_but_the_last(
    broken: str, tmp_path: Path
) -> None:
    """Neither directory of a ZooKeeper broker has the metadata log."""
    for i, name in enumerate(("one", "two")):
        directory = tmp_path / name
        shutil.copytree(SAMPLES / "kafka-2.8.2/v2-none-0", directory / f"t-{i}")
        (directory / META).write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    (tmp_path / broken / "recovery-point-offset-checkpoint").write_text("0\nx\n")
    result = kfmt("check", tmp_path / "one", tmp_path / "two", "--json")
    rows = {Path(row["file"]).name: row for row in result.of("log_directory")}
    assert {name: row["starts"] for name, row in rows.items()} == {"one": True, "two": True}
    assert [name for name, row in rows.items() if row["becomes"] == "offline"] == [broken]
    for name in ("one", "two"):
        (tmp_path / name / "recovery-point-offset-checkpoint").write_text("0\nx\n")
    result = kfmt("check", tmp_path / "one", tmp_path / "two", "--json")
    assert not any(row["starts"] for row in result.of("log_directory"))


def test_an_unknown_version_of_meta_properties_stops_any_broker(tmp_path: Path) -> None:
    shutil.copytree(BROKER_1 / "orders-0", tmp_path / "orders-0")
    text = (BROKER_1 / META).read_text()
    (tmp_path / META).write_text(text.replace("version=1", "version=2"))
    result = kfmt("check", tmp_path, "--json")
    assert result.code == 1
    assert "meta-properties-malformed" in result.codes
    [row] = result.of("log_directory")
    assert not row["starts"]
    assert "version 2 is unknown" in row["reason"]
