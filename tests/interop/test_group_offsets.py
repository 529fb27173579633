"""Kafka's own tool takes the offsets that docs/guides/group-offsets.md writes as CSV."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.test_state import GROUPS, committed
from tools.guides import GUIDES, blocks, run
from tools.kafka import SAMPLES, VERSION, missing
from tools.live import Live, live

pytestmark = [
    pytest.mark.interop,
    pytest.mark.brokers,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
GUIDE = GUIDES / "group-offsets.md"
CARRIED = {
    ("billing", "codec-lz4", "0", "1048", "1200", "152"),
    ("billing", "orders", "0", "480", "1500", "1020"),
}


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Live]:
    """A broker that has the logs of the sample, and no group."""
    data = tmp_path / "data"
    left_out = shutil.ignore_patterns("__consumer_offsets-*")
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", data, ignore=left_out)
    with live(VERSION, data, tmp_path) as broker:
        yield broker


def ask(broker: Live, *words: str) -> str:
    """What the tool prints; on a busy machine, its 5 seconds are too few."""
    return broker.command(GROUPS, *words, "--timeout", "60000")


def arguments(block: str) -> list[str]:
    """What a block of the guide gives to the tool, without the broker."""
    program, option, _, *rest = shlex.split(block.replace("\\\n", " "))
    assert (program, option) == ("kafka-consumer-groups.sh", "--bootstrap-server")
    return rest


def test_the_offsets_of_a_group_are_carried(
    restored: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "guide"
    scratch.mkdir()
    printed = run(GUIDE.read_text(), scratch)
    monkeypatch.chdir(scratch)
    from_file, to_time = map(arguments, blocks(GUIDE.read_text(), "sh"))
    shown = ask(restored, *from_file).partition("NEW-OFFSET")[2].split()
    assert {tuple(shown[at : at + 4]) for at in (0, 4)} == {row[:4] for row in CARRIED}
    assert len(shown) == 8
    assert committed(ask(restored, "--describe", "--group", "billing")) == set()
    assert from_file.pop() == "--dry-run"
    ask(restored, *from_file, "--execute")
    assert committed(ask(restored, "--describe", "--group", "billing")) == CARRIED

    ask(restored, *to_time)
    assert committed(ask(restored, "--describe", "--group", "billing")) == CARRIED

    lines = next(lines for lines in printed if lines[:1] == ["billing,codec-lz4,0,1048"])
    # Both groups have coordinators here; of other names, the coordinator was another broker.
    of_several = [*lines, "stock,orders,0,7"]
    Path("groups.csv").write_text("".join(f"{line}\n" for line in of_several))
    several = ("--group", "billing", "--group", "stock", "--from-file", "groups.csv")
    ask(restored, "--reset-offsets", *several, "--execute")
    assert committed(ask(restored, "--describe", "--all-groups")) == CARRIED | {
        ("stock", "orders", "0", "7", "1500", "1493")
    }
