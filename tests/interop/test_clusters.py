"""Dead clusters come back with real brokers: `replicas` foretold it, and `merge` loses nothing.

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
    ("name", "order"), [(DAMAGED, "1,2,3"), ("c09-unclean", "1,2,3"), ("c02-last-man", "2!,3,1")]
)
def test_brokers_do_in_this_order_what_was_foretold(name: str, order: str, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    done = kfmt("replicas", archive(name), "--order", order, "--json")
    foretold = {(row["topic"], row["partition"]): row for row in done.of("start_order")}
    unpacked(name, tmp_path / "dead")
    seen = start_in(POWER_OFF, tmp_path / "dead", order, tmp_path / "alive")
    assert seen.keys() == foretold.keys()
    for place, end in seen.items():
        row = foretold[place]
        assert (row["order"], row["certain"]) == (value_of(order), True)
        assert (row["leader"], row["log_end_offset"]) == (end.leader, end.log_end_offset), place


def test_the_merged_log_is_what_brokers_then_have(tmp_path: Path) -> None:
    """Each broker's log is damaged in one partition; with the merged ones, nothing is lost."""
    pytest.importorskip("confluent_kafka")
    directories = unpacked(DAMAGED, tmp_path / "dead")
    assert kfmt("merge", *directories, "--to", tmp_path / "merged").code == 0
    for partition in (tmp_path / "merged").iterdir():
        shutil.rmtree(directories[0] / partition.name)
        shutil.copytree(partition, directories[0] / partition.name)
    alive = tmp_path / "alive"
    seen = start_in(POWER_OFF, tmp_path / "dead", "1,2,3", alive)
    assert {place: end.log_end_offset for place, end in seen.items()} == dict.fromkeys(
        [("a", 0), ("b", 0), ("u", 0)], 100
    )
    for topic, _ in seen:
        one, *others = (alive / f"broker{node}" / f"{topic}-0" for node in (1, 2, 3))
        for other in others:
            done = kfmt("diff", one, other, "--json")
            assert (done.code, done.of("diff")[0]["verdict"]) == (0, "identical")


def values(partition: Path, *options: str) -> list[str]:
    """The records of a partition, by their values."""
    return kfmt("cat", partition, *options).out.splitlines()


def test_the_whole_way_back(tmp_path: Path) -> None:
    """Three damaged disks of a cluster that had diverged: the table, its advice, a merged log of
    each partition, a running cluster, and the records of the other branch sent to it."""
    pytest.importorskip("confluent_kafka")
    dead = tmp_path / "dead"
    names = [path.name for path in unpacked("c09-unclean", dead)]
    there = partial(kfmt, cwd=dead)
    for node, topic, at in ((1, "b", 0.3), (2, "a", 0.3), (3, "u", 0.5), (3, "b", 0.6)):
        flip(dead / f"broker{node}/{topic}-0/{LOG}", at)
    table = there("replicas", *names, "--json")
    assert table.code == 1
    losing = {str(row["order"]) for row in table.of("start_order") if row["lost_offsets"]}
    assert losing == {str(row["order"]) for row in table.of("start_order")}

    (merge,) = advised(table, "kfmt merge")
    assert merge.endswith(" --branch 2")
    merge = merge.replace("--to DST", "--to ../merged")
    merged = there(*shlex.split(merge)[1:], "--json")
    assert merged.code == 0, merged.err
    tails = {}
    for command in advised(table, "kfmt salvage"):
        topic = shlex.split(command)[2].split("/")[1]
        assert there(*shlex.split(command.replace(" DST", f" ../kept/{topic}"))[1:]).code in (0, 1)
        tails[topic] = tmp_path / "kept" / topic
    assert tails.keys() == {"a-0", "b-0", "u-0"}

    expected = {
        name: values(tmp_path / "merged" / name) + values(tail, "--from-offset", "60")
        for name, tail in tails.items()
    }
    assert {len(each) for each in expected.values()} == {90 + 30}
    for partition in (tmp_path / "merged").iterdir():
        shutil.rmtree(dead / "broker2" / partition.name)
        shutil.copytree(partition, dead / "broker2" / partition.name)
    for row in there("replicas", *names, "--order", "2,3,1", "--json").of("start_order"):
        assert (row["log_end_offset"], row["lost_offsets"]) == (90, [])

    alive = tmp_path / "alive"
    with started_in(POWER_OFF, dead, "2,3,1", alive) as (cluster, seen):
        assert {end.log_end_offset for end in seen.values()} == {90}
        for name, tail in tails.items():
            sent = kfmt(
                *("replay", tail, "--as", name[0], "--from-offset", "60"),
                *("--bootstrap-server", cluster.address, "--json"),
            )
            assert (sent.code, sent.of("replayed")[0]["records"]) == (0, 30), sent.err
        for name in tails:
            wait_for(lambda name=name: cluster.ends((name[0], 0)) == (0, 120))  # type: ignore[misc]
        for name, its in expected.items():
            assert [m.value().decode() for m in consumed(cluster, name[0])] == its
        wait_for(lambda: all(len(each.isr) == 3 for each in (cluster.states() or {}).values()))
    for name in tails:
        one, *others = (alive / f"broker{node}" / name for node in (1, 2, 3))
        for other in others:
            assert kfmt("diff", one, other, "--json").of("diff")[0]["verdict"] == "identical"
