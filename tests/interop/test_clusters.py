"""Dead clusters come back with real brokers: `replicas` foretold it, and `merge` loses nothing.

`python -m tools.cluster_matrix` does this for many more situations and orders.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands.test_replicas import DAMAGED, archive, unpacked, value_of
from tests.support.dead_clusters import SITUATIONS, start_in
from tests.support.samples import kfmt
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
