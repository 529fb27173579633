"""A log that cannot be read is not treated as a missing one."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

import kfmt_cli
from kfmt_cli.core import parallel
from kfmt_cli.execution import processes
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import with_bytes


def test_a_link_to_nothing_is_an_input_that_was_not_read(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    log = tmp_path / f"orders-0/{480:020}.log"
    log.unlink()
    log.symlink_to("nowhere")
    for command in ("check", "verify-crc", "stat", "dump"):
        result = kfmt(command, tmp_path)
        assert result.code == 3, command
        assert f"{log}: No such file or directory" in result.err
        assert "was deleted while" not in result.err
    assert "1 input not read: no broker start predicted" in kfmt("check", tmp_path).out


@pytest.fixture
def partly_read(tmp_path: Path) -> Path:
    """A partition whose second log is damaged, and compressed as a file whose end is missing."""
    partition = shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    log = partition / f"{240:020}.log"
    damaged = with_bytes(log.read_bytes(), 300, b"\xff")
    (partition / f"{log.name}.gz").write_bytes(gzip.compress(damaged)[:-700])
    log.unlink()
    return Path(partition)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_is_found_in_a_log_before_its_lost_bytes_counts(
    jobs: str, partly_read: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(parallel, "MAX_SMALL_FILE_BYTES", 0)
    for command, n_files in ("verify-crc", 6), ("check", 0):
        result = kfmt(command, partly_read, "--json", "--jobs", jobs)
        summary = result.of("summary")[0]
        assert (result.code, result.codes) == (3, ["crc-mismatch"])
        assert (summary["errors"], summary["unread"]) == (1, 1)
        assert len(result.of("file")) == n_files
        assert result.err.count("the file ends inside a frame") == 1


def test_logs_after_one_with_lost_bytes_are_streamed(partly_read: Path) -> None:
    result = kfmt("cat", partly_read, "-f", "%o\n")
    offsets = list(map(int, result.out.split()))
    # Of the damaged batch, and of the missing end.
    lost_offsets = [
        *range(240, 260),
        *range(440, 480),
    ]
    assert offsets == [offset for offset in range(1500) if offset not in lost_offsets]
    assert result.code == 3
    assert result.err.count("the file ends inside a frame") == 1


def test_logs_that_are_written_together_were_read(partly_read: Path) -> None:
    result = kfmt("dump", "--records", "--json", partly_read)
    assert "kfmt: 6 files read, 1 could not be read\n" in result.err


def test_segments_that_are_not_rebuilt_are_reported(partly_read: Path, tmp_path: Path) -> None:
    result = kfmt("rebuild-index", partly_read, tmp_path / "new")
    assert result.code == 3
    assert f"{240:020}.log.gz: neither this segment nor the 5 after it were rebuilt" in result.err


def test_a_partition_of_which_no_log_is_read_to_its_end_has_a_next_step(tmp_path: Path) -> None:
    log = tmp_path / f"orders-0/{0:020}.log.gz"
    log.parent.mkdir()
    log.write_bytes(gzip.compress((ORDERS.parent / f"{0:020}.log").read_bytes())[:-700])
    result = kfmt("check", tmp_path)
    assert result.code == 3
    assert f"kfmt salvage {log.parent} DST   copies every undamaged batch to DST" in result.out
    assert "1 directory, 0 segments, 0 records, 0 of these damaged, 1 not read" in result.out


def test_python_names_a_log_that_is_read_in_part_once(partly_read: Path) -> None:
    rows = kfmt_cli.read_records(partly_read)
    assert sum(len(columns["offset"]) for columns in rows.columns()) == 1460
    assert len(rows.unread) == 1
