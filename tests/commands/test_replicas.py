"""`kfmt replicas`: eight stopped clusters of real brokers, and how each started."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.broker.cluster.election import ElectionResult, StartStage
from kfmt_cli.broker.metadata.cluster_image import (
    ClusterImage,
    PartitionLeadership,
    PartitionRegistration,
)
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.commands.replicas import command as replicas_command
from kfmt_cli.commands.replicas.branches import ReplicaBranch, ReplicaBranches
from kfmt_cli.commands.replicas.evidence import find_evidence
from kfmt_cli.commands.replicas.nodes import (
    DiskReplica,
    _find_damaged_offsets,
    _find_deleted_logs,
)
from kfmt_cli.commands.replicas.start_orders import (
    OutcomePredictor,
    PartitionOutcome,
    StartOrder,
)
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.errors import InputError
from tests.support.dead_clusters import LOG, flip
from tests.support.failing_disk import make_unreadable
from tests.support.samples import Done, kfmt
from tools.kafka import SAMPLES

CLUSTERS = Path(__file__).parent.parent / "kept" / "clusters"
OUTCOMES: list[dict[str, Any]] = json.loads((CLUSTERS / "outcomes.json").read_text())
NAMES = [outcome["case"] for outcome in OUTCOMES]
DAMAGED, ELR, FOREIGN = "c05-leader-damaged", "c16-elr-kill", "c14-foreign-disk"


def archive(name: str) -> Path:
    return CLUSTERS / f"{name}.tar.xz"


def unpacked(name: str, to: Path) -> list[Path]:
    """The directories of a cluster."""
    with tarfile.open(archive(name)) as file:
        file.extractall(to, filter="data")
    return sorted(path for path in to.iterdir() if path.is_dir())


@cache
def replicas_result(name: str) -> Done:
    """The output of kfmt for a cluster, with every start order that was tried."""
    outcome = next(candidate for candidate in OUTCOMES if candidate["case"] == name)
    orders = dict.fromkeys(observation["order"] for observation in outcome["seen"])
    options = [argument for order in orders for argument in ("--order", order)]
    return kfmt("replicas", archive(name), *options, "--json")


def advised(result: Done, start: str) -> list[str]:
    """The advised commands that begin with start."""
    return [row["command"] for row in result.of("next") if row["command"].startswith(start)]


def value_of(order: str) -> list[int] | str:
    return order if set(order) & set("!+") else [int(node) for node in order.split(",")]


@pytest.mark.parametrize("name", NAMES)
def test_facts_of_every_replica(name: str) -> None:
    outcome = next(candidate for candidate in OUTCOMES if candidate["case"] == name)
    rows = {
        (f"{row['topic']}-{row['partition']}", Path(row["file"]).parent.name[-1]): row
        for row in replicas_result(name).of("replica")
        if row["file"] is not None
    }
    for topic_partition, replicas in outcome["replicas"].items():
        for node, facts in replicas.items():
            row = rows.pop((topic_partition, node))
            assert len(row["damaged_offsets"]) == facts.pop("damaged", len(row["damaged_offsets"]))
            assert {key: row[key] for key in facts} == facts
    assert not rows


@pytest.mark.parametrize("name", NAMES)
def test_ends_are_those_that_were_seen(name: str) -> None:
    outcome = next(candidate for candidate in OUTCOMES if candidate["case"] == name)
    rows = {
        (str(row["order"]), f"{row['topic']}-{row['partition']}"): row
        for row in replicas_result(name).of("start_order")
    }
    for observation in outcome["seen"]:
        row = rows[str(value_of(observation["order"])), observation["partition"]]
        expected = {
            "leader": observation["leader"],
            "log_end_offset": observation["log_end_offset"],
        }
        in_turn = "+" not in observation["order"]
        if row["certain"]:
            assert {key: row[key] for key in expected} == expected, observation
            assert row["lost_offsets"] == observation["lost"]
            assert row["returning_offsets"] == observation["returned"]
        else:
            assert not in_turn
            assert 2 <= len(row["alternatives"]) <= 3
            assert expected in row["alternatives"]


def test_exit_codes_and_verdicts() -> None:
    verdicts = {
        name: {row["verdict"] for row in replicas_result(name).of("replicas")} for name in NAMES
    }
    assert verdicts == {
        "c01-power-off": {"identical"},
        "c02-last-man": {"behind"},
        DAMAGED: {"damaged"},
        "c07-old-disk": {"behind"},
        "c09-unclean": {"diverged"},
        FOREIGN: {"foreign"},
        ELR: {"behind"},
        "c29-directory-gone": {"empty"},
    }
    assert {name for name in NAMES if replicas_result(name).code == 0} == {"c01-power-off"}


def test_partitions_that_cannot_be_compared_are_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = unpacked("c01-power-off", tmp_path / "disks")

    def fail(*_: object) -> ReplicaBranches:
        raise InputError("a-0/00000000000000000000.log: read error")

    monkeypatch.setattr(replicas_command, "find_branches", fail)
    result = kfmt("replicas", *disks, "--json")
    assert result.code == 3
    assert {row["verdict"] for row in result.of("replicas")} == {"unread"}
    assert not result.of("start_order")
    output = kfmt("replicas", *disks).out
    assert "3 partitions could not be compared" in output
    assert "nothing is lost" not in output
    assert "need no decision" not in output
    merged = kfmt("merge", *disks, "--to", tmp_path / "merged")
    assert "not merged: a-0: its replicas could not be compared" in merged.err
    assert not (tmp_path / "merged").exists()


def test_the_answer_comes_first(tmp_path: Path) -> None:
    lines = kfmt("replicas", archive(ELR)).out.splitlines()
    assert lines[0].startswith("4 directories: brokers 1, 2, 3, controller 100 · cluster ")
    assert lines[3] == "Start broker 1 first, alone until it leads, then 2 and 3: nothing is lost."
    assert lines[4].startswith(
        "DO NOT start broker 2 or 3 first, or all together: up to 100 offsets"
    )
    calm = kfmt("replicas", archive("c01-power-off"))
    assert "Start the brokers in any order, or together: nothing is lost.\n" in calm.out
    assert "3 partitions need no decision; use --all to list them" in calm.out
    assert "a-0" in kfmt("replicas", archive("c01-power-off"), "--all").out
    broken = kfmt("replicas", archive(DAMAGED))
    assert "EVERY ORDER LOSES OFFSETS" in broken.out
    assert "kfmt merge" in broken.out
    diverged = kfmt("replicas", *unpacked("c09-unclean", tmp_path))
    assert f"kfmt salvage {tmp_path}/broker1/a-0 DST   keeps the 30 offsets" in diverged.out


def test_without_the_controller_the_newest_copy_decides(tmp_path: Path) -> None:
    """Broker 1, the last to stop, has the newest copy; a note says there may be a newer one."""
    *brokers, _ = unpacked("c02-last-man", tmp_path)
    result = kfmt("replicas", *brokers, "--json")
    by_file = {Path(row["file"]).name: row for row in result.of("directory")}
    assert {name: row["metadata_is_newest"] for name, row in by_file.items()} == {
        "broker1": True,
        "broker2": False,
        "broker3": False,
    }
    assert {row["metadata_from"] for row in result.of("replicas")} == {str(tmp_path / "broker1")}
    output = kfmt("replicas", *brokers).out
    assert "no controller's directory was given: the newest copy of the metadata log is " in output
    assert f"{tmp_path}/broker1, but a controller may have a newer one" in output


def test_a_controller_older_than_its_brokers(tmp_path: Path) -> None:
    directories = unpacked("c02-last-man", tmp_path / "late")
    early = unpacked("c01-power-off", tmp_path / "early")
    controller = next(path for path in directories if path.name == "controller100")
    shutil.rmtree(controller)
    shutil.copytree(early[-1], controller)
    result = kfmt("replicas", *directories)
    assert f"the controller {controller} is older than its brokers" in result.out
    assert "do not start it" in result.out


def test_evidence_of_a_disk_that_lost_something() -> None:
    evidence = {
        (row["topic"], text)
        for row in replicas_result("c29-directory-gone").of("replicas")
        for text in row["evidence"]
    }
    assert ("a", "broker 1 has no directory for the partition") in evidence
    assert any(
        "broker 1 was the last leader, but its log ends at 0" in text for _, text in evidence
    )
    assert not any(row["evidence"] for row in replicas_result("c01-power-off").of("replicas"))


def test_a_directory_of_another_topic_id_and_one_of_an_unknown_topic(tmp_path: Path) -> None:
    directories = unpacked("c01-power-off", tmp_path)
    metadata = tmp_path / "broker1/a-0/partition.metadata"
    metadata.write_text("version: 0\ntopic_id: Jd4qCpYkZMw8zR87hsZyqQ\n")
    shutil.copytree(tmp_path / "broker1/a-0", tmp_path / "broker1/unknown-0")
    result = kfmt("replicas", *directories, "--json")
    evidence = {row["topic"]: row["evidence"] for row in result.of("replicas")}
    assert evidence.pop("unknown") == []
    assert "the replica of broker 1 has topic id Jd4qCpYkZMw8zR87hsZyqQ" in evidence.pop("a")[0]
    assert not any(evidence.values())
    assert "unknown" not in {row["topic"] for row in result.of("start_order")}


def test_a_disk_of_another_cluster_and_a_node_given_twice(tmp_path: Path) -> None:
    rows = {Path(row["file"]).name: row for row in replicas_result(FOREIGN).of("directory")}
    assert "its cluster id is" in rows["broker2"]["why_not"]
    assert {name for name, row in rows.items() if row["why_not"]} == {"broker2"}
    for row in replicas_result(FOREIGN).of("start_order"):
        assert row["leader"] != 2
    directories = unpacked("c01-power-off", tmp_path)
    duplicate = tmp_path / "again"
    shutil.copytree(directories[0], duplicate)
    result = kfmt("replicas", *directories, duplicate, "--json")
    refused = [row for row in result.of("directory") if row["why_not"]]
    assert [Path(row["file"]).name for row in refused] == ["again"]
    assert "has the same node id, 1" in refused[0]["why_not"]
    expected = kfmt("replicas", *directories, "--json")
    for paths in ((*directories, duplicate), (duplicate, *directories)):
        result = kfmt("replicas", *paths, "--json")
        assert start_order_ends(result) == start_order_ends(expected)


def start_order_ends(result: Done) -> list[tuple[object, ...]]:
    """The leader and log end offset of each partition, by start order."""
    return [
        (row["topic"], row["partition"], str(row["order"]), row["leader"], row["log_end_offset"])
        for row in result.of("start_order")
    ]


def test_offsets_below_a_high_watermark_were_acknowledged() -> None:
    n_partly_acknowledged = 0
    for name in NAMES:
        result = replicas_result(name)
        watermarks: dict[str, int] = {}
        for row in result.of("replica"):
            if row["high_watermark_checkpoint"] is not None:
                watermarks[row["topic"]] = max(
                    watermarks.get(row["topic"], 0), row["high_watermark_checkpoint"]
                )
        for row in result.of("start_order"):
            last = watermarks.get(row["topic"], 0) - 1
            expected = [
                [first, min(end, last)] for first, end in row["lost_offsets"] if first <= last
            ]
            assert row["lost_acknowledged_at_least"] == expected
            n_partly_acknowledged += expected not in ([], row["lost_offsets"])
    assert n_partly_acknowledged


def test_nodes_are_named_by_their_role() -> None:
    combined = [SAMPLES / f"kafka-3.9.1-broker{i}" for i in (1, 2)]
    assert kfmt("replicas", *combined).out.startswith("2 directories: brokers 1, 2 · ")
    separate = kfmt("replicas", archive(DAMAGED)).out
    assert separate.startswith("4 directories: brokers 1, 2, 3, controller 100 · ")


def test_a_registered_broker_whose_disk_was_not_given_is_named(tmp_path: Path) -> None:
    directories = unpacked("c01-power-off", tmp_path)
    message = "No directory of broker 1 was given"
    assert message in kfmt("replicas", *directories[1:], TERM="dumb").out
    assert message not in kfmt("replicas", *directories).out


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("1,x", "'x' is not a valid stage; write broker ids as in 1,2,3"),
        ("1,9", "no directory of broker 9; the given directories belong to brokers 1, 2, 3, 100"),
        ("1,2,1", "a broker is named twice"),
    ],
)
def test_wrong_orders(order: str, message: str) -> None:
    result = kfmt("replicas", archive("c01-power-off"), "--order", order)
    assert result.code == 2
    assert message in result.err


def test_the_advised_merge_of_diverged_replicas_loses_nothing(tmp_path: Path) -> None:
    """It names the branch, and uses replicas of brokers that other logs keep from starting."""
    directories = unpacked("c09-unclean", tmp_path / "dead")
    for node, topic in ((1, "b"), (2, "a"), (3, "u"), (3, "b")):
        flip(tmp_path / f"dead/broker{node}/{topic}-0" / LOG, 1 / 3)
    diagnosis = kfmt("replicas", *directories, "--json")
    stopped = [row["why_not"] for row in diagnosis.of("directory")]
    assert [reason and reason.partition(":")[0] for reason in stopped] == [
        *("it does not start", None, "it does not start", None)
    ]
    (merge,) = advised(diagnosis, "kfmt merge")
    assert merge.endswith(" --to DST --branch 2")
    result = kfmt(*shlex.split(merge.replace("DST", str(tmp_path / "merged")))[1:], "--json")
    assert result.code == 0, result.out + result.err
    assert {path.name for path in (tmp_path / "merged").iterdir()} == {"a-0", "b-0", "u-0"}


def test_wrong_paths(tmp_path: Path) -> None:
    result = kfmt("replicas", tmp_path / "nothing")
    assert result.code == 3
    assert "nothing: No such file or directory" in result.err
    (tmp_path / "empty").mkdir()
    result = kfmt("replicas", tmp_path / "empty")
    assert result.code == 3
    assert "no broker or controller directory found" in result.err


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    directories = unpacked("c01-power-off", tmp_path)
    log = directories[0] / "a-0" / "00000000000000000000.log"
    log.unlink()
    log.symlink_to(tmp_path / "gone")
    result = kfmt("replicas", *directories, "--json")
    assert result.code == 3
    assert str(log) in result.err


def test_nothing_is_changed(tmp_path: Path) -> None:
    def state() -> Iterator[tuple[str, int, bytes]]:
        for path in sorted(tmp_path.rglob("*")):
            if path.is_file():
                yield str(path), path.stat().st_mtime_ns, path.read_bytes()

    directories = unpacked(DAMAGED, tmp_path)
    original = list(state())
    kfmt("replicas", *directories)
    assert list(state()) == original


def test_an_end_is_certain_if_it_is_the_only_one() -> None:
    order = StartOrder("1", (StartStage((1,)),))
    assert PartitionOutcome(order).is_certain
    assert not PartitionOutcome(
        order, [ElectionResult(1), ElectionResult(2)], [None, None]
    ).is_certain


def test_an_end_that_depends_on_the_leader_is_unknown() -> None:
    order = StartOrder("1+2", (StartStage((1, 2)),))
    shorter, longer = (
        DiskReplica(0, broker_id, LogDirectory(), predicted_log_end=end)
        for broker_id, end in ((1, 5), (2, 7))
    )
    for replicas, expected in (([shorter, longer], None), ([longer, longer], 7)):
        outcome = PartitionOutcome(order, [ElectionResult(1), ElectionResult(2)], replicas)
        assert outcome.log_end_offset == expected


@pytest.mark.parametrize("is_excluded", [False, True])
def test_a_replica_that_is_not_used_is_no_evidence_of_a_lost_end(is_excluded: bool) -> None:
    leader, other = (
        DiskReplica(i, i + 1, LogDirectory(), log_end=end) for i, end in enumerate((5, 7))
    )
    other.is_excluded = is_excluded
    registration = PartitionRegistration(
        "t", 0, "", PartitionLeadership((1, 2), (1, 2), leader=1), 0, 0, ()
    )
    evidence = find_evidence(
        registration,
        [leader, other],
        ReplicaBranches([ReplicaBranch([leader, other])]),
        OutcomePredictor(ClusterImage(), []),
    )
    is_leader_short = any(
        "broker 1 was the last leader, but its log ends at 5 and broker 2's at 7" in text
        for text in evidence
    )
    assert is_leader_short == (not is_excluded)


def test_evidence_of_a_lost_end_names_the_longest_of_the_others() -> None:
    replicas = [
        DiskReplica(i, i + 1, LogDirectory(), log_end=end) for i, end in enumerate((5, 7, 9, 6))
    ]
    registration = PartitionRegistration(
        "t", 0, "", PartitionLeadership((1, 2, 3, 4), (1, 2, 3, 4), leader=1), 0, 0, ()
    )
    for order in (replicas, replicas[::-1]):
        evidence = find_evidence(
            registration,
            order,
            ReplicaBranches([ReplicaBranch(order)]),
            OutcomePredictor(ClusterImage(), []),
        )
        (sentence,) = (text for text in evidence if "was the last leader" in text)
        assert "its log ends at 5 and broker 3's at 9" in sentence


def test_a_controller_alone_leaves_partitions_offline(tmp_path: Path) -> None:
    directories = unpacked("c01-power-off", tmp_path)
    for given in (directories, directories[1:]):
        result = kfmt("replicas", *given, "--order", "100", "--json")
        rows = result.of("start_order")
        assert {(row["leader"], row["log_end_offset"]) for row in rows} == {(None, None)}
        assert not any(row["lost_offsets"] for row in rows)


def test_a_leader_without_a_replica_loses_every_offset() -> None:
    replica = DiskReplica(0, 1, LogDirectory(), segment_fingerprints=[(0, 0, 9, 0)])
    branches = ReplicaBranches([ReplicaBranch([replica])])
    assert branches.offsets_lost_with(None) == [(0, 8)]
    assert branches.offsets_returning_with(None) == []


def test_a_replica_starts_at_the_lowest_of_its_logs(tmp_path: Path) -> None:
    source = SAMPLES / "kafka-3.9.1-broker1"
    shutil.copy(source / "meta.properties", tmp_path)
    (tmp_path / "orders-0").mkdir()
    for base_offset in (1200, 1440):
        shutil.copy(source / "orders-0" / f"{base_offset:020}.log", tmp_path / "orders-0")
    (orders,) = kfmt("replicas", tmp_path, "--json").of("replica")
    assert (orders["log_start_offset"], orders["log_end_offset"]) == (1200, 1500)


def test_the_merged_log_replaces_that_of_the_broker_that_leads(tmp_path: Path) -> None:
    """Of two orders that lose the same, the first is the one whose first broker cannot lead."""
    directories = [tmp_path / name for name in ("kafka-3.9.1-broker1", "kafka-3.9.1-broker2")]
    for directory in directories:
        shutil.copytree(SAMPLES / directory.name, directory)
    log = max((directories[1] / "replicated-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    result = kfmt("replicas", *directories, "--json")
    (step,) = result.of("next")
    (partition,) = (row for row in result.of("replicas") if row["topic"] == "replicated")
    assert partition["isr"] == [2]
    assert step["price"].endswith("replace broker 2's directories with these, and start it first")


def test_a_metadata_log_that_is_read_in_part_knows_no_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its unreadable part may have them."""
    disks = unpacked(DAMAGED, tmp_path)
    expected = kfmt("replicas", *disks, "--json").of("start_order")
    make_unreadable(disks[0] / "__cluster_metadata-0" / f"{0:020}.log", [(4096, 8192)], monkeypatch)
    checked = kfmt("check", disks[0])
    assert checked.code == 3
    assert "partition-set-aside" not in checked.out
    assert "-stray" not in checked.out
    assert f"kfmt salvage {disks[0]} DST" in checked.out
    result = kfmt("replicas", *disks, "--json")
    assert result.code == 3
    assert [row["order"] for row in result.of("start_order")] == [row["order"] for row in expected]
    assert result.of("start_order") == expected


def test_the_end_of_a_log_that_cannot_be_read_is_no_sign_of_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = unpacked(DAMAGED, tmp_path)
    make_unreadable(disks[1] / "a-0" / f"{0:020}.log", [(0, 4096)], monkeypatch)
    result = kfmt("replicas", *disks)
    assert result.code == 3
    assert "it has lost offsets" not in result.out
    assert re.search(r"a-0 +1 +1,2,3 +100→30 ✗ +\? ", result.out)


def test_a_log_that_a_cleaner_replaced_is_not_damaged(tmp_path: Path) -> None:
    """The cleaner removes a log and puts another in its place: it is there again, and was not
    read."""
    partition = shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", tmp_path / "orders-0")
    listing = list_directory(str(partition))
    unread = DirectoryCheckResult(listing.name, listing.path, listing)
    assert _find_damaged_offsets(listing, unread, []) == [(0, 1440)]
    for log in listing.logs:
        content = Path(log.path).read_bytes()
        Path(log.path).unlink()
        Path(log.path).write_bytes(content)
    assert _find_damaged_offsets(listing, unread, []) == []
    assert _find_deleted_logs(listing) == set()
    Path(listing.logs[0].path).unlink()
    assert _find_deleted_logs(listing) == {0}
