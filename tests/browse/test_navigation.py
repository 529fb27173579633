"""Where the browser goes: the log and the row of a target, without a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfmt_cli.browse.batch_filter import parse_batch_filter
from kfmt_cli.browse.disk_nodes import DiskNode, build_disk_tree
from kfmt_cli.browse.navigation import (
    GO_TO_BYTE,
    GO_TO_OFFSET,
    GO_TO_TIME,
    GoToTarget,
    TargetRow,
    find_start_log,
    find_target,
)
from kfmt_cli.browse.session import BrowserSession, OpenedLog
from kfmt_cli.errors import InputError
from tests.support.outlines import big_log
from tests.support.samples import ORDERS, TXN

LATE_MS = 1 << 42


def open_log(
    path: Path, index: int = 0, batch_filter: str = ""
) -> tuple[OpenedLog, list[DiskNode]]:
    """A log of a partition, with its whole index, and all logs of the partition."""
    session = BrowserSession(build_disk_tree((str(path),), pytest.fail))
    session.batch_filter = parse_batch_filter(batch_filter)
    nodes = session.partition_logs(session.root)
    session.open_log(nodes[index], 80)
    assert session.opened_log is not None
    session.opened_log.block_index.extend_index()
    return session.opened_log, nodes


def test_an_offset_begins_in_the_log_that_contains_it() -> None:
    opened_log, nodes = open_log(ORDERS.parent)
    for node in nodes:
        assert node.file is not None
        base_offset = node.file.base_offset_or_zero
        assert find_start_log(GoToTarget(GO_TO_OFFSET, base_offset), nodes, opened_log) is node
        assert find_start_log(GoToTarget(GO_TO_OFFSET, base_offset + 1), nodes, None) is node
    assert find_start_log(GoToTarget(GO_TO_OFFSET, 0), nodes[1:], None) is nodes[1]


def test_bytes_and_later_times_begin_in_the_open_log() -> None:
    opened_log, nodes = open_log(ORDERS.parent, 2)
    first_ms = opened_log.log_view.batch_fields(0).max_timestamp
    for target, node in (
        (GoToTarget(GO_TO_BYTE, 5), nodes[2]),
        (GoToTarget(GO_TO_TIME, first_ms + 1), nodes[2]),
        (GoToTarget(GO_TO_TIME, first_ms), nodes[0]),
    ):
        assert find_start_log(target, nodes, opened_log) is node
        assert find_start_log(target, nodes, None) is nodes[0]
        assert find_start_log(target, nodes[:2], opened_log) is nodes[0]


def test_a_time_after_all_batches_is_in_a_later_log() -> None:
    target = GoToTarget(GO_TO_TIME, LATE_MS)
    opened_log, nodes = open_log(ORDERS.parent, 1)
    assert find_target(target, opened_log, nodes) == nodes[2]
    last_log, nodes = open_log(ORDERS.parent, -1)
    assert find_target(target, last_log, nodes) == TargetRow(
        last_log.block_index.n_rows - 1,
        "the time is not in this partition; showing its last batch",
    )


@pytest.mark.parametrize(
    ("offset", "note"),
    [
        (20, ""),
        (239, ""),
        (10**6, "offset 1000000 is not in this segment; showing its last batch"),
    ],
)
def test_an_offset_that_is_missing_is_named(offset: int, note: str) -> None:
    opened_log, nodes = open_log(ORDERS.parent)
    location = find_target(GoToTarget(GO_TO_OFFSET, offset), opened_log, nodes)
    assert isinstance(location, TargetRow)
    assert location.note == note
    if not note:
        batch = opened_log.log_view.batch_fields(location.row)
        assert batch.base_offset <= offset <= batch.last_offset
    file_location = find_target(GoToTarget(GO_TO_OFFSET, offset), *open_log(ORDERS))
    assert file_location == TargetRow(location.row, note.replace("segment", "file"))


@pytest.mark.parametrize(
    ("target", "batch"),
    [
        (GoToTarget(GO_TO_OFFSET, 0), "next"),
        (GoToTarget(GO_TO_OFFSET, 10**6), "last"),
        (GoToTarget(GO_TO_TIME, LATE_MS), "last"),
        (GoToTarget(GO_TO_BYTE, 0), ""),
    ],
)
def test_a_target_that_the_filter_hides_is_named(target: GoToTarget, batch: str) -> None:
    opened_log, nodes = open_log(TXN, batch_filter="codec=zstd")
    location = find_target(target, opened_log, nodes)
    assert isinstance(location, TargetRow)
    assert ("is not in a batch that matches codec=zstd" in location.note) == bool(batch)
    assert f"the {batch}" in location.note or f"its {batch}" in location.note or not batch


def test_a_log_without_batches_has_no_target() -> None:
    opened_log, nodes = open_log(TXN, batch_filter="damaged")
    assert not opened_log.block_index.n_rows
    for kind in (GO_TO_OFFSET, GO_TO_TIME, GO_TO_BYTE):
        assert find_target(GoToTarget(kind, 5), opened_log, nodes) == TargetRow(0)


def test_a_target_beyond_the_index_has_no_place_yet(tmp_path: Path) -> None:
    log = big_log(tmp_path / "orders-0", 300)
    session = BrowserSession(build_disk_tree((str(log),), pytest.fail))
    session.open_log(session.root, 80)
    opened_log = session.opened_log
    assert opened_log is not None
    target = GoToTarget(GO_TO_BYTE, log.stat().st_size - 1)
    assert find_target(target, opened_log, [session.root]) is None
    opened_log.block_index.extend_index()
    assert find_target(target, opened_log, []) == TargetRow(opened_log.block_index.n_rows - 1)
    opened_log.log_view.clear_cache()
    log.unlink()
    with pytest.raises(InputError, match="No such file"):
        find_target(target, opened_log, [session.root])


def test_the_logs_of_a_selection(tmp_path: Path) -> None:
    session = BrowserSession(build_disk_tree((str(ORDERS.parent.parent),), pytest.fail))
    node = session.find_file_node(str(ORDERS))
    assert node is not None
    partition = session.enclosing_partition(node)
    assert session.partition_logs(node) == session.partition_logs(partition) == partition.logs()
    assert session.partition_logs(session.root) == []
    alone = BrowserSession(build_disk_tree((str(big_log(tmp_path, 1)),), pytest.fail))
    assert alone.partition_logs(alone.root) == [alone.root]


def test_a_log_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    log = big_log(tmp_path / "orders-0", 1)
    session = BrowserSession(build_disk_tree((str(log),), pytest.fail))
    session.open_log(session.root, 80)
    opened_log = session.opened_log
    assert opened_log is not None
    opened_log.log_view.clear_cache()
    log.unlink()
    opened_log.select_batch(3)
    assert opened_log.selected_batch is None
    assert "No such file" in opened_log.batch_error
    session.open_log(session.root, 80)
    assert session.opened_log is None
    assert "No such file" in session.open_error
