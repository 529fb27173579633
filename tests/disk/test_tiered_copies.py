"""Segments of tiered storage next to those of the broker that uploaded them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tests.support.tiered import BROKER, FIRST, KEY, TXN, flip, run_kfmt


@pytest.mark.parametrize(("n_partitions", "kind"), [(1, "plain"), (40, "plain"), (1, "zstd")])
def test_a_bucket_next_to_directories_of_a_broker(
    n_partitions: int, kind: str, buckets: Path
) -> None:
    """For any number of directories, and in any order of listing."""
    mixed = buckets / "mixed"
    for i in range(n_partitions):
        shutil.copytree(BROKER / "orders-0", mixed / f"t{i}-0")
    stored = run_kfmt("verify-crc", kind, "--json", cwd=buckets).of("file")
    local = kfmt("verify-crc", BROKER / "orders-0", "--json").of("file")
    for file in (buckets / kind).rglob("*"):
        if file.is_file():
            target = mixed / "bucket" / file.relative_to(buckets / kind)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    for name, option in (("check", "--json"), ("dump", "--json"), ("stat", "--json")):
        result = run_kfmt(name, "mixed", option, cwd=buckets)
        assert result.code == 0, result.err
    result = run_kfmt("verify-crc", "mixed", "--json", cwd=buckets)
    rows = result.of("file")
    assert len(rows) == len(stored) + n_partitions * len(local)
    records = sum(row["records"] for row in rows)
    assert records == sum(row["records"] for row in (*stored, *local * n_partitions))
    dataset = pytest.importorskip("pyarrow.dataset")
    exported = run_kfmt("export", "mixed", "--to", "lake", "--tables", "batches", cwd=buckets)
    assert exported.code == 0, exported.err
    counts = dataset.dataset(buckets / "lake/batches").to_table(columns=["records_count"])
    assert sum(counts["records_count"].to_pylist()) == records
    pytest.importorskip("duckdb")
    sql_result = run_kfmt("sql", "select count(*) n from records", "mixed", "--json", cwd=buckets)
    assert sql_result.rows[0]["n"] == records, sql_result.err


@pytest.mark.parametrize("command", ["verify-crc", "check"])
def test_checking_reads_each_copy(command: str, buckets: Path) -> None:
    """Also copies of segments that the broker has: a damaged copy is not a backup."""
    flip(buckets / "plain/tiered" / TXN / f"{FIRST}.log")
    bucket_result = run_kfmt(command, "plain", "--json", cwd=buckets)
    shutil.copytree(BROKER, buckets / "broker")
    result = run_kfmt(command, "broker", "plain", "--json", cwd=buckets)
    assert bucket_result.code == result.code == 1
    damaged = [row["code"] for row in bucket_result.of("finding") if row["severity"] == "error"]
    assert damaged
    codes = [row["code"] for row in result.of("finding") if row["severity"] == "error"]
    assert codes == damaged
    files = {
        row["file"]
        for row in run_kfmt("index-check", "broker", "plain", "--json", cwd=buckets).of("file")
    }
    assert {f"{root}/txn-0/{0:020}.index" for root in ("broker", "plain")} <= files


def test_local_and_tiered_parts_are_one_log(buckets: Path) -> None:
    """The local log begins in the middle; kfmt reads segments that both have once."""
    local = buckets / "local/txn-0"
    local.mkdir(parents=True)
    second = BROKER / "txn-0" / f"{357:020}.log"
    for file in (BROKER / "txn-0").glob(f"{357:020}.*"):
        shutil.copy(file, local)
    expected = kfmt("cat", BROKER / "txn-0" / f"{0:020}.log", second, "-f", "%o\n").out
    output = run_kfmt("cat", "plain/tiered", "local", "-f", "%t %o\n", cwd=buckets).out
    assert [
        line.split()[1] for line in output.splitlines() if line.startswith("txn")
    ] == expected.split()
    assert run_kfmt("verify-crc", "plain", cwd=buckets).out.count("2 segments") == 1


def test_a_partition_that_is_local_too_has_other_paths(plain_bucket: Path) -> None:
    """A log directory with a bucket in it, and a partition of which both have segments."""
    logs = (BROKER / "txn-0" / f"{base:020}.log" for base in (0, 357))
    expected = [int(offset) for offset in kfmt("cat", *logs, "-f", "%o\n").out.split()]
    (bucket_partition,) = (
        path.relative_to(plain_bucket) for path in plain_bucket.glob("plain/tiered/txn-*/0")
    )
    local = plain_bucket / "txn-0"
    local.mkdir()
    for file in (BROKER / "txn-0").glob(f"{357:020}.*"):
        shutil.copy(file, local)
    result = run_kfmt("verify-crc", ".", "--json", cwd=plain_bucket)
    assert [row["file"] for row in result.of("file")] == [
        f"./txn-0/{357:020}.log",
        f"./{bucket_partition}/txn-0/{0:020}.log",
        f"./{bucket_partition}/txn-0/{357:020}.log",
    ]
    offsets = run_kfmt("cat", ".", "-f", "%o\n", cwd=plain_bucket).out.split()
    assert sorted(map(int, offsets)) == expected


def test_a_bucket_that_has_nothing_more_is_read(buckets: Path) -> None:
    shutil.copytree(BROKER / "txn-0", buckets / "local/txn-0")
    for path in ("encrypted", "zstd"):
        shutil.rmtree(buckets / path)
    shutil.rmtree(buckets / "plain/orders", ignore_errors=True)
    result = run_kfmt("dump", "local", "plain", "--json", cwd=buckets)
    assert result.code == 0, result.err
    logs = [row["file"] for row in result.of("batch") if row["topic"] == "txn"]
    assert all(log.startswith("local/") for log in logs)


def test_a_broker_that_ends_before_its_tiered_copy(plain_bucket: Path) -> None:
    shutil.copytree(BROKER, plain_bucket / "broker")
    for base_offset in (357, 635, 736):
        for file in (plain_bucket / "broker/txn-0").glob(f"{base_offset:020}.*"):
            file.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (plain_bucket / "broker" / name).unlink()
    output = run_kfmt("replicas", "broker", "plain", cwd=plain_bucket).out
    (row,) = (line for line in output.splitlines() if line.startswith(" txn-0"))
    assert row.split()[-4:] == ["behind", "357,", "loses", "357–634"]
    assert "but its log ends at 357 and plain/txn-0's at 635" in output


def test_a_tiered_copy_completes_a_damaged_one(plain_bucket: Path) -> None:
    """`replicas` and `merge` compare copies; other commands read each segment once."""
    output = run_kfmt("replicas", BROKER, "plain", cwd=plain_bucket).out
    broker_output = run_kfmt("replicas", BROKER, cwd=plain_bucket).out
    assert output.splitlines()[1:] == broker_output.splitlines()[1:]
    shutil.copytree(BROKER, plain_bucket / "broker")
    first = [f"{0:020}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex")]
    for name in first:
        (plain_bucket / "broker/txn-0" / name).rename(plain_bucket / name)
    output_without_first = run_kfmt("replicas", "broker", "plain", cwd=plain_bucket).out
    # A segment in tiered storage only is not lost.
    assert output_without_first.splitlines()[2:] == broker_output.splitlines()[2:]
    for name in first:
        (plain_bucket / name).rename(plain_bucket / "broker/txn-0" / name)
    log = plain_bucket / "broker/txn-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    lossy_merge = run_kfmt("merge", "broker", "--topics", "txn", "--to", "lost", cwd=plain_bucket)
    assert (lossy_merge.code, "in no replica: 174–179" in lossy_merge.out) == (1, True)
    advice = run_kfmt("replicas", "broker", "plain", cwd=plain_bucket).out
    assert "kfmt merge broker plain --to DST" in advice
    advice_with_key = run_kfmt(
        "replicas", "broker", "plain", "--rsm-private-key", KEY, cwd=plain_bucket
    ).out
    assert f"kfmt merge broker plain --to DST --rsm-private-key {KEY}" in advice_with_key
    result = run_kfmt(
        "merge", "broker", "plain", "--topics", "txn", "--to", "merged", cwd=plain_bucket
    )
    assert (result.code, "174–179 from plain/txn-0" in result.out) == (0, True)
    shutil.rmtree(plain_bucket / "broker/txn-0")  # its high watermark is in a checkpoint
    short_merge = run_kfmt(
        "merge", "broker", "plain", "--topics", "txn", "--to", "short", cwd=plain_bucket
    )
    assert (short_merge.code, "in no replica: 635–735" in short_merge.out) == (1, True)
    for name in sorted(path.name for path in (BROKER / "txn-0").glob("*.log")):
        assert (plain_bucket / "merged/txn-0" / name).read_bytes() == (
            BROKER / "txn-0" / name
        ).read_bytes()
