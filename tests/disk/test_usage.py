"""Disk usage by purpose."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from kfmt_cli.disk.usage import read_disk_usage
from tests.support.samples import kfmt
from tests.support.segments import write
from tools.kafka import ROOT, SAMPLES


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


def test_only_the_logs_of_a_compressed_partition_are_not_counted_as_freed(tmp_path: Path) -> None:
    """Their files have other sizes than those that retention deletes."""

    def freed_now() -> object:
        rows = kfmt("stat", tmp_path, "--json").of("disk_usage")
        return next(row["freed_now"] for row in rows if row["purpose"] == "logs")

    names = ("codec-lz4-0", "codec-none-0", "orders-0")
    log_bytes = {}
    for name in names:
        shutil.copytree(SAMPLES / "kafka-3.9.1-broker1" / name, tmp_path / name)
        log_bytes[name] = sum(log.stat().st_size for log in (tmp_path / name).glob("*.log"))
    assert freed_now() == sum(log_bytes.values())
    for name in names[:2]:
        for log in (tmp_path / name).glob("*.log"):
            log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
            log.unlink()
        del log_bytes[name]
        assert freed_now() == sum(log_bytes.values())
