"""Real brokers start on dead clusters: `replicas` predicts the result, and `merge` loses nothing.

`python -m tools.cluster_matrix` does this for many more situations and orders.
"""

from __future__ import annotations

import shlex
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.commands.test_replicas import DAMAGED, advised, archive, unpacked, value_of
from tests.support.consuming import consumed
from tests.support.dead_clusters import LOG, SITUATIONS, flip, start_in, started_in
from tests.support.samples import kfmt
from tests.support.waiting import wait_for
from tools import kafka

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.interop,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
POWER_OFF = SITUATIONS["power-off"]


@pytest.mark.parametrize(
    ("name", "order"),
    [
        (DAMAGED, "1,2,3"),
        ("c09-unclean", "1,2,3"),
        ("c02-last-man", "2!,3,1"),
        ("open-transactions", "1"),
    ],
)
def test_brokers_start_in_this_order_as_predicted(name: str, order: str, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    result = kfmt("replicas", archive(name), "--order", order, "--json")
    predicted = {
        (row["topic"], row["partition"]): row
        for row in result.of("start_order")
        if not row["topic"].startswith("__")  # not described to clients
    }
    unpacked(name, tmp_path / "dead")
    actual = start_in(POWER_OFF, tmp_path / "dead", order, tmp_path / "alive")
    assert actual.keys() == predicted.keys()
    for topic_partition, end in actual.items():
        row = predicted[topic_partition]
        assert (row["order"], row["certain"]) == (value_of(order), True)
        assert (row["leader"], row["log_end_offset"]) == (end.leader, end.log_end_offset), (
            topic_partition
        )


def test_the_merged_log_is_what_brokers_then_have(tmp_path: Path) -> None:
    """Each broker's log is damaged in one partition; the merged logs have all records."""
    pytest.importorskip("confluent_kafka")
    directories = unpacked(DAMAGED, tmp_path / "dead")
    assert kfmt("merge", *directories, "--to", tmp_path / "merged").code == 0
    for partition in (tmp_path / "merged").iterdir():
        shutil.rmtree(directories[0] / partition.name)
        shutil.copytree(partition, directories[0] / partition.name)
    alive = tmp_path / "alive"
    ends = start_in(POWER_OFF, tmp_path / "dead", "1,2,3", alive)
    assert {
        topic_partition: end.log_end_offset for topic_partition, end in ends.items()
    } == dict.fromkeys([("a", 0), ("b", 0), ("u", 0)], 100)
    for topic, _ in ends:
        first, *others = (alive / f"broker{node}" / f"{topic}-0" for node in (1, 2, 3))
        for other in others:
            result = kfmt("diff", first, other, "--json")
            assert (result.code, result.of("diff")[0]["verdict"]) == (0, "identical")


def values(partition: Path, *options: str) -> list[str]:
    """The values of the records of a partition."""
    return kfmt("cat", partition, *options).out.splitlines()


def test_a_damaged_cluster_is_recovered(tmp_path: Path) -> None:
    """Three damaged disks of a cluster that had diverged: `replicas`, its advice, a merged log of
    each partition, a running cluster, and the records of the other branch replayed into it."""
    pytest.importorskip("confluent_kafka")
    dead = tmp_path / "dead"
    names = [path.name for path in unpacked("c09-unclean", dead)]
    run_kfmt = partial(kfmt, cwd=dead)
    for node, topic, fraction in ((1, "b", 0.3), (2, "a", 0.3), (3, "u", 0.5), (3, "b", 0.6)):
        flip(dead / f"broker{node}/{topic}-0/{LOG}", fraction)
    replicas_result = run_kfmt("replicas", *names, "--json")
    assert replicas_result.code == 1
    losing = {str(row["order"]) for row in replicas_result.of("start_order") if row["lost_offsets"]}
    assert losing == {str(row["order"]) for row in replicas_result.of("start_order")}

    (merge_command,) = advised(replicas_result, "kfmt merge")
    assert merge_command.endswith(" --branch 2")
    merge_command = merge_command.replace("--to DST", "--to ../merged")
    merge_result = run_kfmt(*shlex.split(merge_command)[1:], "--json")
    assert merge_result.code == 0, merge_result.err
    tails = {}
    for command in advised(replicas_result, "kfmt salvage"):
        topic = shlex.split(command)[2].split("/")[1]
        assert run_kfmt(*shlex.split(command.replace(" DST", f" ../kept/{topic}"))[1:]).code in (
            0,
            1,
        )
        tails[topic] = tmp_path / "kept" / topic
    assert tails.keys() == {"a-0", "b-0", "u-0"}

    expected = {
        name: values(tmp_path / "merged" / name) + values(tail, "--from-offset", "60")
        for name, tail in tails.items()
    }
    assert {len(sent_values) for sent_values in expected.values()} == {90 + 30}
    for partition in (tmp_path / "merged").iterdir():
        shutil.rmtree(dead / "broker2" / partition.name)
        shutil.copytree(partition, dead / "broker2" / partition.name)
    for row in run_kfmt("replicas", *names, "--order", "2,3,1", "--json").of("start_order"):
        assert (row["log_end_offset"], row["lost_offsets"]) == (90, [])

    alive = tmp_path / "alive"
    with started_in(POWER_OFF, dead, "2,3,1", alive) as (cluster, ends):
        assert {end.log_end_offset for end in ends.values()} == {90}
        for name, tail in tails.items():
            replay_result = kfmt(
                *("replay", tail, "--as", name[0], "--from-offset", "60"),
                *("--bootstrap-server", cluster.address, "--json"),
            )
            assert (replay_result.code, replay_result.of("replayed")[0]["records"]) == (0, 30), (
                replay_result.err
            )
        for name in tails:
            wait_for(lambda name=name: cluster.ends((name[0], 0)) == (0, 120))  # type: ignore[misc]
        for name, topic_values in expected.items():
            assert [m.value().decode() for m in consumed(cluster, name[0])] == topic_values
        wait_for(
            lambda: all(
                len(sent_values.isr) == 3 for sent_values in (cluster.states() or {}).values()
            )
        )
    for name in tails:
        first, *others = (alive / f"broker{node}" / name for node in (1, 2, 3))
        for other in others:
            assert kfmt("diff", first, other, "--json").of("diff")[0]["verdict"] == "identical"
