"""check: files that the owner of their directory cannot open."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt

CODE = "file-access-denied"
OWNER, GROUP = 23456, 34567
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def partition_of(directory: Path, owner: int = OWNER) -> Path:
    """A partition of that owner."""
    partition = directory / "orders-0"
    shutil.copytree(ORDERS.parent, partition)
    for path in (partition, *partition.iterdir()):
        os.chown(path, owner, GROUP)
        path.chmod(0o750)
    return partition


def messages(partition: Path) -> list[str]:
    findings = map(json.loads, kfmt("check", partition, "--json").out.splitlines())
    return [found["message"] for found in findings if found.get("code") == CODE]


@pytest.mark.parametrize(
    ("suffix", "owner", "group", "mode", "use"),
    [
        (".log", 0, 0, 0o644, "read and write"),
        (".index", 0, 0, 0o644, "read and write"),
        (".timeindex", 0, GROUP, 0o640, "read and write"),
        (".timeindex", 0, GROUP, 0o664, None),
        (".index", OWNER, 0, 0o400, "read and write"),
        (".snapshot", 0, 0, 0o644, None),
        (".snapshot", 0, 0, 0o600, "read"),
        ("leader-epoch-checkpoint", 0, 0, 0o600, "read"),
        ("partition.metadata", 0, 0, 0o664, None),
    ],
)
def test_a_file_that_the_owner_cannot_open_is_a_warning(
    tmp_path: Path, suffix: str, owner: int, group: int, mode: int, use: str | None
) -> None:
    partition = partition_of(tmp_path)
    file = next(path for path in sorted(partition.iterdir()) if path.name.endswith(suffix))
    os.chown(file, owner, group)
    file.chmod(mode)
    expected = (
        f"belongs to user {owner} with mode {mode:04o}; user {OWNER}, the owner of the directory, "
        f"cannot {use} it"
    )
    assert messages(partition) == ([expected] if use else [])
    assert kfmt("check", partition).code == 0
    assert kfmt("check", partition, "--strict").code == (1 if use else 0)


def test_files_of_one_directory_are_one_finding(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    for file in partition.glob("*.index"):
        os.chown(file, 0, 0)
    (message,) = messages(partition)
    assert message.endswith("; the same for 6 more files here")


def test_no_broker_runs_in_a_copy_to_read_and_root_opens_everything(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    for path in (*partition.iterdir(), partition):
        path.chmod(0o550)
    assert messages(partition) == []
    partition.chmod(0o750)
    os.chown(partition, 0, 0)
    assert messages(partition) == []
