"""A file that the disk does not give is named with its byte, and the rest is shown."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.samples import TXN, environment, kfmt
from tools.kafka import ROOT

NAMES = [
    f"{base:020}{suffix}"
    for base in (357, 635)
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition of three segments."""
    return Path(shutil.copytree(TXN.parent, tmp_path / "disk/txn-0"))


def fail(name: str, monkeypatch: pytest.MonkeyPatch, only: int | None = None) -> list[int]:
    """Make each read of the files with a name fail, or only one of them; returns the positions of
    their reads."""
    real = os.pread
    reads: list[int] = []

    def pread(handle: int, length: int, position: int) -> bytes:
        if Path(f"/proc/self/fd/{handle}").readlink().name == name:
            reads.append(position)
            if only in (None, len(reads)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(handle, length, position)

    monkeypatch.setattr(os, "pread", pread)
    return reads


@pytest.mark.parametrize("name", NAMES)
def test_report_names_what_it_cannot_read_and_makes_the_page_of_the_rest(
    name: str, partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("altair", reason="the extra report is not installed")
    page = partition.parent.parent / "page.html"
    fail(name, monkeypatch)
    done = kfmt("report", partition, "--to", page)
    words = re.escape(f"{partition / name} byte ") + r"\d+: cannot be read: Input/output error"
    assert done.code == 3
    assert re.fullmatch(f"(kfmt: {words}\n)+", done.err)
    assert re.search(words, page.read_text())


@pytest.mark.parametrize("command", ["retention", "compaction"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_the_active_segment_that_cannot_be_read_is_named(
    command: str, suffix: str, partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{635:020}{suffix}"
    fail(name, monkeypatch)
    done = kfmt(command, partition)
    words = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (done.code, done.err) == (3, words)


def test_export_of_a_log_that_cannot_be_read_is_not_a_finding(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    name = f"{357:020}.log"
    fail(name, monkeypatch)
    words = ["export", str(partition), "--to", str(partition.parent.parent / "out"), "--jobs", "1"]
    code, out, err = in_process.run(words, b"", ROOT, environment())
    line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (code, err.decode()) == (3, line)
    assert "3 segments, 458 records, 0 of these damaged, 1 not read" in out.decode()


def test_a_deleted_log_that_cannot_be_read_is_named(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = partition / f"{0:020}.log"
    name = f"{log.name}.deleted"
    log.rename(log.with_name(name))
    fail(name, monkeypatch)
    done = kfmt("check", partition)
    line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (done.code, done.err) == (3, line)
    monkeypatch.undo()
    log.with_name(name).write_bytes(b"x")  # which is no log
    assert kfmt("check", partition).err == ""


def test_stat_names_the_active_segment_once(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{635:020}.log"
    fail(name, monkeypatch)
    done = kfmt("stat", partition.parent)
    line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
    assert (done.code, done.err) == (3, line)


def test_a_snapshot_that_cannot_be_read_is_not_a_damaged_one(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history and both predicted starts read it once more."""
    name = f"{635:020}.snapshot"
    (partition / f"{635:020}.index").unlink()  # so that starts are simulated
    with monkeypatch.context() as patch:
        reads = fail(name, patch, only=0)
        assert kfmt("check", partition).err == ""
    starts = [number for number, position in enumerate(reads, start=1) if position == 0]
    assert len(starts) == 4
    for number in starts:
        with monkeypatch.context() as patch:
            fail(name, patch, only=number)
            done = kfmt("check", partition)
        line = f"kfmt: {partition / name} byte 0: cannot be read: Input/output error\n"
        assert (done.code, done.err) == (3, line), number
