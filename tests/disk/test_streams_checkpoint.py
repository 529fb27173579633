"""The .checkpoint of a Kafka Streams task, read as by OffsetCheckpoint of 3.9.1 and 4.4.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfmt_cli.disk.kinds import classify_name
from kfmt_cli.disk.kinds.checkpoint import STREAMS_CHECKPOINT_KIND
from tests.support.samples import kfmt


def write_checkpoint(directory: Path, text: str) -> Path:
    """The .checkpoint of a task in a state directory."""
    path = directory / "application" / "0_2" / ".checkpoint"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("0\n2\nstore-changelog 2 84138256\nother-changelog 2 -4\n", [84138256, -4]),
        ("+0\n01\nstore-changelog +2 05\n", [5]),
        ("0\r1\rstore-changelog 2 5 \r", [5]),
        ("0\n0\n", []),
    ],
)
def test_offsets_are_read(text: str, offsets: list[int], tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, text)
    result = kfmt("dump", path, "--json")
    assert (result.code, [row["offset"] for row in result.of("streams_checkpoint_entry")]) == (
        0,
        offsets,
    )
    table = kfmt("dump", path).out
    assert ("–" in table) == (-4 in offsets)


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "0\n", "1\n1\na 0 5\n", " 0\n1\na 0 5\n", "0\n2\na 0 5\n", "0\n1\n a 0 5\n"),
        *("0\n1\na\u00a00 5\n", "0\n1\na 0 x\n", "0\n1\na 0 5\n\n"),
    ],
)
def test_what_streams_refuses_is_malformed(text: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, text)
    result = kfmt("check", tmp_path, "--json", "--jobs", "1")
    assert (result.code, set(result.codes)) == (1, {"checkpoint-malformed"})


def test_snapshots_of_metadata_are_another_kind() -> None:
    assert classify_name(".checkpoint")[0] is STREAMS_CHECKPOINT_KIND
    assert classify_name(".checkpoint.tmp")[0] is STREAMS_CHECKPOINT_KIND
    for name in ("bootstrap.checkpoint", "00000000000000000010-0000000001.checkpoint"):
        assert classify_name(name)[0].name == "kraft_snapshot"
