"""Following a partition that a broker writes: complete batches, in order, each once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.commands.cat import command, partition_tail
from kfmt_cli.commands.cat.partition_tail import tail_partition
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError
from kfmt_cli.log.block import Block
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions, write

DATA = ORDERS.read_bytes()
ENDS = positions(DATA)
"""The positions of the twelve batches, and the end of the last one."""


class NothingNewError(Exception):
    """Raised when the follower waits and nothing more happens."""


def partition_at(directory: Path) -> Partition:
    logs = [classify_file(str(log), log.name) for log in sorted(directory.glob("*.log"))]
    return Partition(directory.name, directory, logs)


def log_position(partition: Partition, n_batches: int) -> tuple[InputFile, int]:
    """The last log of a partition, and the end of some of its batches."""
    return partition.logs[-1], ENDS[n_batches]


def test_batches_come_once_they_are_complete(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = directory / ORDERS.name
    log.write_bytes(DATA[: ENDS[2]])
    # No batch that is truncated, or whose bytes or checksum are not written yet.
    steps = [
        DATA[: ENDS[2] + 10],
        DATA[: ENDS[3] - 1],
        DATA[: ENDS[3]],
        DATA[: ENDS[5]] + bytes(ENDS[6] - ENDS[5]),
        DATA[: ENDS[5]] + DATA[ENDS[5] : ENDS[5] + 61] + bytes(ENDS[6] - ENDS[5] - 61),
        DATA[: ENDS[7]],
    ]
    batches: list[tuple[int, list[int]]] = []
    waits = 0

    def wait() -> None:
        nonlocal waits
        if waits == len(steps):
            raise NothingNewError
        log.write_bytes(steps[waits])
        waits += 1

    with suppress(NothingNewError):
        partition = partition_at(directory)
        for file, block in tail_partition(partition, log_position(partition, 2), wait):
            assert file.path == str(log)
            batches.append((waits, block.batches.base_offset.tolist()))
    assert batches == [(3, [40]), (4, [60, 80]), (6, [100, 120])]


def test_the_next_segment_is_followed_when_the_broker_rolls(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(DATA[: ENDS[1]])
    partition = partition_at(directory)
    new_logs = [f"{base_offset:020}.log" for base_offset in (480, 240)]
    waits = 0

    def wait() -> None:
        nonlocal waits
        waits += 1
        if waits == 1:
            for name in new_logs:
                (directory / name).write_bytes((ORDERS.parent / name).read_bytes())
            (directory / "notes.log").write_bytes(DATA)
            return
        raise NothingNewError

    offsets = []
    with suppress(NothingNewError):
        for file, block in tail_partition(partition, log_position(partition, 1), wait):
            offsets += [(file.base_offset, int(offset)) for offset in block.batches.base_offset]
    expected = [
        (base_offset, base_offset + 20 * i) for base_offset in (240, 480) for i in range(12)
    ]
    assert offsets == expected


def test_a_log_that_cannot_be_read_any_more_is_no_log_without_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = directory / ORDERS.name
    log.write_bytes(DATA[: ENDS[1]])

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def wait() -> None:
        if os.pread is fail:
            raise NothingNewError
        log.write_bytes(DATA)
        monkeypatch.setattr(os, "pread", fail)

    partition = partition_at(directory)
    with pytest.raises(InputError, match=f"{log.name} byte .*: Input/output error"):
        list(tail_partition(partition, log_position(partition, 1), wait))


def test_a_log_that_a_broker_removes_meanwhile_has_no_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = directory / ORDERS.name
    log.write_bytes(DATA[: ENDS[1]])
    waits = 0

    def wait() -> None:
        nonlocal waits
        waits += 1
        if waits == 2:
            raise NothingNewError
        log.unlink()
        monkeypatch.setattr(partition_tail, "file_size", lambda _: len(DATA))

    partition = partition_at(directory)
    with pytest.raises(NothingNewError):
        list(tail_partition(partition, log_position(partition, 1), wait))


def test_nothing_is_missed_between_reading_and_following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(tmp_path / "orders-0", DATA[: ENDS[3] + 100])

    def grow_and_tail(partition: Partition, *arguments: Any) -> Iterator[tuple[InputFile, Block]]:
        log.write_bytes(DATA)
        return tail_partition(partition, *arguments)

    monkeypatch.setattr(command, "tail_partition", grow_and_tail)
    result = kfmt("cat", log.parent, "--follow", "-f", "%o\\n", "--limit", "240")
    assert [int(offset) for offset in result.out.split()] == list(range(240))


def test_one_partition_is_followed() -> None:
    result = kfmt("cat", ORDERS.parent.parent, "--follow")
    assert result.code == 2
    assert "--follow needs a single partition" in result.err
