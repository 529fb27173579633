"""The number of processes and the size of chunks for some work."""

from __future__ import annotations

import os
import signal
import time

import pytest

from kfmt_cli.disk.mounts import MountTable
from kfmt_cli.disk.object_stores import ObjectStoreTree
from kfmt_cli.execution import processes
from kfmt_cli.execution.processes import choose_chunk_size, map_in_processes, useful_process_count


@pytest.mark.parametrize(
    ("n_bytes", "remote", "expected"),
    [(0, False, 1), ((64 << 20) - 1, False, 1), (64 << 20, False, 6), (0, True, 6)],
)
def test_processes_are_started_for_many_bytes_or_files_elsewhere(
    n_bytes: int, remote: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MOUNTS", mounts := MountTable())
    if remote:
        mounts.add_tree(ObjectStoreTree("s3:"))
    assert useful_process_count(6, n_bytes) == expected


@pytest.mark.parametrize(
    ("n_items", "jobs", "expected"), [(1, 1, 1), (16, 1, 1), (17, 1, 4), (32, 2, 1), (33, 2, 4)]
)
def test_many_items_are_sent_in_chunks(n_items: int, jobs: int, expected: int) -> None:
    assert choose_chunk_size(n_items, jobs) == expected


def test_one_job_or_one_item_starts_no_process() -> None:
    items: list[int] = []
    assert list(map_in_processes(items.append, [1, 2, 3], 1)) == [None] * 3
    assert list(map_in_processes(items.append, [4], 8)) == [None]
    assert items == [1, 2, 3, 4]  # of this process


def _write_and_sleep(pipe: int) -> None:
    os.write(pipe, b"x")
    time.sleep(60)


def test_processes_end_when_the_main_one_is_killed() -> None:
    read_end, write_end = os.pipe()
    if (main := os.fork()) == 0:
        list(map_in_processes(_write_and_sleep, [write_end, write_end], 2))
        os._exit(1)
    os.close(write_end)
    with open(read_end, "rb", buffering=0) as pipe:  # noqa: PTH123 (a descriptor)
        assert pipe.read(1) + pipe.read(1) == b"xx"
        os.kill(main, signal.SIGKILL)
        os.waitpid(main, 0)
        killed = time.monotonic()
        assert pipe.read(1) == b""  # when nobody has the other end any more
    assert time.monotonic() - killed < 30
