"""Disk usage by purpose."""

from __future__ import annotations

from pathlib import Path

from kfmt_cli.disk.usage import read_disk_usage
from tests.support.samples import kfmt
from tests.support.segments import write
from tools.kafka import ROOT


def test_bytes_on_disk_are_the_blocks_of_each_file_once(tmp_path: Path) -> None:
    log = write(tmp_path / "t-0", b"x" * 10_000, f"{0:020}.log")
    (log.parent / f"{9:020}.log").hardlink_to(log)
    sparse = write(tmp_path / "t-0", b"", f"{0:020}.index")
    with sparse.open("r+b") as index:
        index.truncate(10 << 20)
    errors: list[str] = []
    usage_by_purpose = {
        usage.purpose: usage for usage in read_disk_usage(str(tmp_path), errors.append)
    }
    assert (errors, usage_by_purpose["logs"].files, usage_by_purpose["logs"].bytes) == (
        [],
        1,
        10_000,
    )
    assert usage_by_purpose["logs"].disk_bytes == log.stat().st_blocks * 512 >= 10_000
    assert usage_by_purpose["indexes"].bytes == 10 << 20
    assert usage_by_purpose["indexes"].disk_bytes == sparse.stat().st_blocks * 512


def test_the_files_of_a_tiered_bucket_have_a_purpose() -> None:
    """The owner of the bucket deletes them with their segments, so `becomes` is empty."""
    rows = kfmt("stat", ROOT / "tests/kept/aiven-1.0.0/plain", "--json").of("disk_usage")
    usage_by_purpose = {row["purpose"]: (row["files"], row["becomes"]) for row in rows}
    assert usage_by_purpose == {"logs": (2, None), "remote_storage": (4, None)}
