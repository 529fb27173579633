"""How many processes and shares some work is worth."""

from __future__ import annotations

import os
import signal
import time

import pytest

from kfmt_cli.disk.mounts import MountTable
from kfmt_cli.disk.object_stores import ObjectStoreTree
from kfmt_cli.execution import processes
from kfmt_cli.execution.processes import choose_chunk_size, map_processes, useful_processes


@pytest.mark.parametrize(
    ("n_bytes", "remote", "expected"),
    [(0, False, 1), ((64 << 20) - 1, False, 1), (64 << 20, False, 6), (0, True, 6)],
)
def test_processes_are_started_for_many_bytes_or_files_elsewhere(
    n_bytes: int, remote: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MOUNTS", found := MountTable())
    if remote:
        found.add(ObjectStoreTree("s3:"))
    assert useful_processes(6, n_bytes) == expected


@pytest.mark.parametrize(
    ("n_shares", "jobs", "expected"), [(1, 1, 1), (16, 1, 1), (17, 1, 4), (32, 2, 1), (33, 2, 4)]
)
def test_many_shares_are_given_several_at_once(n_shares: int, jobs: int, expected: int) -> None:
    assert choose_chunk_size(n_shares, jobs) == expected


def test_one_job_or_one_item_starts_no_process() -> None:
    seen: list[int] = []
    assert list(map_processes(seen.append, [1, 2, 3], 1)) == [None] * 3
    assert list(map_processes(seen.append, [4], 8)) == [None]
    assert seen == [1, 2, 3, 4]  # of this process


def _say_and_sleep(pipe: int) -> None:
    os.write(pipe, b"x")
    time.sleep(60)


def test_processes_end_when_the_main_one_is_killed() -> None:
    ours, theirs = os.pipe()
    if (main := os.fork()) == 0:
        list(map_processes(_say_and_sleep, [theirs, theirs], 2))
        os._exit(1)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as pipe:  # noqa: PTH123 (a descriptor)
        assert pipe.read(1) + pipe.read(1) == b"xx"
        os.kill(main, signal.SIGKILL)
        os.waitpid(main, 0)
        killed = time.monotonic()
        assert pipe.read(1) == b""  # when nobody has the other end any more
    assert time.monotonic() - killed < 30
