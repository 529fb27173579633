"""Kafka's own tool accepts the offsets that docs/guides/group-offsets.md writes as CSV."""

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
COPIED_OFFSETS = {
    ("billing", "codec-lz4", "0", "1048", "1200", "152"),
    ("billing", "orders", "0", "480", "1500", "1020"),
}


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Live]:
    """A broker that has the logs of the sample, and no group."""
    log_directory = tmp_path / "data"
    ignored = shutil.ignore_patterns("__consumer_offsets-*")
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", log_directory, ignore=ignored)
    with live(VERSION, log_directory, tmp_path) as broker:
        yield broker


def run_groups_tool(broker: Live, *options: str) -> str:
    """The output of the tool; its default timeout of 5 seconds is too short on a busy machine."""
    return broker.command(GROUPS, *options, "--timeout", "60000")


def tool_arguments(block: str) -> list[str]:
    """The arguments of the tool in a block of the guide, without the broker's address."""
    program, option, _, *options = shlex.split(block.replace("\\\n", " "))
    assert (program, option) == ("kafka-consumer-groups.sh", "--bootstrap-server")
    return options


def test_the_offsets_of_a_group_are_carried(
    restored: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "guide"
    scratch.mkdir()
    printed = run(GUIDE.read_text(), scratch)
    monkeypatch.chdir(scratch)
    file_arguments, time_arguments = map(tool_arguments, blocks(GUIDE.read_text(), "sh"))
    output = run_groups_tool(restored, *file_arguments).partition("NEW-OFFSET")[2].split()
    assert {tuple(output[i : i + 4]) for i in (0, 4)} == {row[:4] for row in COPIED_OFFSETS}
    assert len(output) == 8
    assert committed(run_groups_tool(restored, "--describe", "--group", "billing")) == set()
    assert file_arguments.pop() == "--dry-run"
    run_groups_tool(restored, *file_arguments, "--execute")
    assert (
        committed(run_groups_tool(restored, "--describe", "--group", "billing")) == COPIED_OFFSETS
    )

    run_groups_tool(restored, *time_arguments)
    assert (
        committed(run_groups_tool(restored, "--describe", "--group", "billing")) == COPIED_OFFSETS
    )

    lines = next(lines for lines in printed if lines[:1] == ["billing,codec-lz4,0,1048"])
    # This broker coordinates both groups; another broker coordinated groups of other names.
    lines_of_two = [*lines, "stock,orders,0,7"]
    Path("groups.csv").write_text("".join(f"{line}\n" for line in lines_of_two))
    options = ("--group", "billing", "--group", "stock", "--from-file", "groups.csv")
    run_groups_tool(restored, "--reset-offsets", *options, "--execute")
    assert committed(run_groups_tool(restored, "--describe", "--all-groups")) == COPIED_OFFSETS | {
        ("stock", "orders", "0", "7", "1500", "1493")
    }
