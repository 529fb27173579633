"""Directories, pipes and broken links in the place of files of a partition, as Kafka opened them in
`tests/interop/test_not_files.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_partitions import TXN, sample
from tests.support.samples import Row, kfmt
from tools.not_files import NotAFile, place

CLOSED, LAST, END = (f"{offset:020}" for offset in (357, 635, 736))


def predicted_starts(directory: Path, name: str, kind: NotAFile, version: str) -> dict[str, Row]:
    """The predicted starts of a partition with what is no file, by the kind of start."""
    partition = directory / "txn-0"
    partition.mkdir()
    files: dict[str, bytes | NotAFile] = {**sample(TXN), name: kind}
    for file_name, content in files.items():
        place(partition / file_name, content)
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\ntxn 0 736\n")
    result = kfmt("check", directory, "--json", "--jobs", "1", "--kafka-version", version)
    return {row["after"]: row for row in result.of("broker_start") if "txn-0" in row["file"]}


@pytest.mark.parametrize(
    ("name", "kind", "failing"),
    [
        (f"{CLOSED}.timeindex", NotAFile.DIRECTORY, []),
        (f"{LAST}.timeindex", NotAFile.DIRECTORY, ["crash", "clean-shutdown"]),
        (f"{CLOSED}.txnindex", NotAFile.DIRECTORY, ["crash", "clean-shutdown"]),
        (f"{CLOSED}.txnindex", NotAFile.LOOP, []),
        (f"{LAST}.txnindex", NotAFile.LOOP, ["crash"]),
        (f"{CLOSED}.index", NotAFile.DANGLING_LINK, []),
        (f"{CLOSED}.snapshot", NotAFile.DIRECTORY, []),
        (f"{END}.snapshot", NotAFile.LOOP, ["crash", "clean-shutdown"]),
        (f"{END}.snapshot", NotAFile.PIPE, ["crash", "clean-shutdown"]),
        ("leader-epoch-checkpoint", NotAFile.DANGLING_LINK, ["crash", "clean-shutdown"]),
        ("partition.metadata", NotAFile.DIRECTORY, ["crash", "clean-shutdown"]),
        ("partition.metadata", NotAFile.DANGLING_LINK, []),
    ],
)
def test_a_start_fails_where_it_opens_what_is_no_file(
    name: str, kind: NotAFile, failing: list[str], tmp_path: Path
) -> None:
    starts = predicted_starts(tmp_path, name, kind, "3.9")
    assert [after for after, row in starts.items() if not row["starts"]] == failing
    assert all(name in starts[after]["reason"] for after in failing)
    assert all(row["log_end_offset"] == 736 for row in starts.values() if row["starts"])


@pytest.mark.parametrize(
    ("name", "log_end"), [(f"{CLOSED}.log", 736), (f"{LAST}.log", 635)], ids=("closed", "last")
)
def test_a_directory_named_like_a_log_is_no_segment(
    name: str, log_end: int, tmp_path: Path
) -> None:
    starts = predicted_starts(tmp_path, name, NotAFile.DIRECTORY, "4.4")
    assert {row["log_end_offset"] for row in starts.values()} == {log_end}
    deleted = {file for row in starts.values() for file in row["deleted"]}
    assert not any(file.endswith("index") for file in deleted)


def test_since_4_0_a_snapshot_that_cannot_be_written_empties_the_segment(tmp_path: Path) -> None:
    starts = predicted_starts(tmp_path, f"{END}.snapshot", NotAFile.DIRECTORY, "4.4")
    assert starts["crash"]["log_end_offset"] == 635
    assert [item["size"] for item in starts["crash"]["cut"]] == [0]
    assert not starts["clean-shutdown"]["starts"]
