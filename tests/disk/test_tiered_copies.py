"""Segments of tiered storage next to those of the broker that they came from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tests.support.tiered import BROKER, FIRST, KEY, TXN, flip, ran


@pytest.mark.parametrize(("n", "kind"), [(1, "plain"), (40, "plain"), (1, "zstd")])
def test_a_bucket_next_to_directories_of_a_broker(n: int, kind: str, buckets: Path) -> None:
    """However many directories there are, and whichever is listed first."""
    mixed = buckets / "mixed"
    for i in range(n):
        shutil.copytree(BROKER / "orders-0", mixed / f"t{i}-0")
    stored = ran("verify-crc", kind, "--json", cwd=buckets).of("file")
    local = kfmt("verify-crc", BROKER / "orders-0", "--json").of("file")
    for file in (buckets / kind).rglob("*"):
        if file.is_file():
            to = mixed / "bucket" / file.relative_to(buckets / kind)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, to)
    for name, option in (("check", "--json"), ("dump", "--json"), ("stat", "--json")):
        done = ran(name, "mixed", option, cwd=buckets)
        assert done.code == 0, done.err
    done = ran("verify-crc", "mixed", "--json", cwd=buckets)
    rows = done.of("file")
    assert len(rows) == len(stored) + n * len(local)
    records = sum(row["records"] for row in rows)
    assert records == sum(row["records"] for row in (*stored, *local * n))
    dataset = pytest.importorskip("pyarrow.dataset")
    exported = ran("export", "mixed", "--to", "lake", "--tables", "batches", cwd=buckets)
    assert exported.code == 0, exported.err
    counts = dataset.dataset(buckets / "lake/batches").to_table(columns=["records_count"])
    assert sum(counts["records_count"].to_pylist()) == records
    pytest.importorskip("duckdb")
    asked = ran("sql", "select count(*) n from records", "mixed", "--json", cwd=buckets)
    assert asked.rows[0]["n"] == records, asked.err


@pytest.mark.parametrize("command", ["verify-crc", "check"])
def test_checking_reads_each_copy(command: str, buckets: Path) -> None:
    """Also those that a broker has, too: a copy that is damaged is none."""
    flip(buckets / "plain/tiered" / TXN / f"{FIRST}.log")
    alone = ran(command, "plain", "--json", cwd=buckets)
    shutil.copytree(BROKER, buckets / "broker")
    both = ran(command, "broker", "plain", "--json", cwd=buckets)
    assert alone.code == both.code == 1
    damaged = [row["code"] for row in alone.of("finding") if row["severity"] == "error"]
    assert damaged
    found = [row["code"] for row in both.of("finding") if row["severity"] == "error"]
    assert found == damaged
    files = {
        row["file"]
        for row in ran("index-check", "broker", "plain", "--json", cwd=buckets).of("file")
    }
    assert {f"{top}/txn-0/{0:020}.index" for top in ("broker", "plain")} <= files


def test_local_and_tiered_parts_are_one_log(buckets: Path) -> None:
    """The local part begins in the middle; what both have is read once."""
    local = buckets / "local/txn-0"
    local.mkdir(parents=True)
    second = BROKER / "txn-0" / f"{357:020}.log"
    for file in (BROKER / "txn-0").glob(f"{357:020}.*"):
        shutil.copy(file, local)
    whole = kfmt("cat", BROKER / "txn-0" / f"{0:020}.log", second, "-f", "%o\n").out
    ours = ran("cat", "plain/tiered", "local", "-f", "%t %o\n", cwd=buckets).out
    assert [
        line.split()[1] for line in ours.splitlines() if line.startswith("txn")
    ] == whole.split()
    assert ran("verify-crc", "plain", cwd=buckets).out.count("2 segments") == 1


def test_a_partition_that_is_local_too_has_other_paths(plain_bucket: Path) -> None:
    """A log directory with a bucket in it, and a partition of which both have segments."""
    logs = (BROKER / "txn-0" / f"{base:020}.log" for base in (0, 357))
    whole = [int(offset) for offset in kfmt("cat", *logs, "-f", "%o\n").out.split()]
    (stored,) = (
        path.relative_to(plain_bucket) for path in plain_bucket.glob("plain/tiered/txn-*/0")
    )
    local = plain_bucket / "txn-0"
    local.mkdir()
    for file in (BROKER / "txn-0").glob(f"{357:020}.*"):
        shutil.copy(file, local)
    done = ran("verify-crc", ".", "--json", cwd=plain_bucket)
    assert [row["file"] for row in done.of("file")] == [
        f"./txn-0/{357:020}.log",
        f"./{stored}/txn-0/{0:020}.log",
        f"./{stored}/txn-0/{357:020}.log",
    ]
    offsets = ran("cat", ".", "-f", "%o\n", cwd=plain_bucket).out.split()
    assert sorted(map(int, offsets)) == whole


def test_a_bucket_that_has_nothing_more_is_read(buckets: Path) -> None:
    shutil.copytree(BROKER / "txn-0", buckets / "local/txn-0")
    for path in ("encrypted", "zstd"):
        shutil.rmtree(buckets / path)
    shutil.rmtree(buckets / "plain/orders", ignore_errors=True)
    done = ran("dump", "local", "plain", "--json", cwd=buckets)
    assert done.code == 0, done.err
    logs = [row["file"] for row in done.of("batch") if row["topic"] == "txn"]
    assert all(log.startswith("local/") for log in logs)


def test_a_broker_that_ends_before_its_tiered_copy(plain_bucket: Path) -> None:
    shutil.copytree(BROKER, plain_bucket / "broker")
    for later in (357, 635, 736):
        for file in (plain_bucket / "broker/txn-0").glob(f"{later:020}.*"):
            file.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (plain_bucket / "broker" / name).unlink()
    shown = ran("replicas", "broker", "plain", cwd=plain_bucket).out
    (row,) = (line for line in shown.splitlines() if line.startswith(" txn-0"))
    assert row.split()[-4:] == ["behind", "357,", "loses", "357–634"]
    assert "but its log ends at 357 and plain/txn-0's at 635" in shown


def test_a_tiered_copy_completes_a_damaged_one(plain_bucket: Path) -> None:
    """`replicas` and `merge` compare copies; other commands read what both have once."""
    whole = ran("replicas", BROKER, "plain", cwd=plain_bucket).out
    alone = ran("replicas", BROKER, cwd=plain_bucket).out
    assert whole.splitlines()[1:] == alone.splitlines()[1:]
    shutil.copytree(BROKER, plain_bucket / "broker")
    first = [f"{0:020}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex")]
    for name in first:
        (plain_bucket / "broker/txn-0" / name).rename(plain_bucket / name)
    with_less = ran("replicas", "broker", "plain", cwd=plain_bucket).out
    assert with_less.splitlines()[2:] == alone.splitlines()[2:]  # what is only tiered is not lost
    for name in first:
        (plain_bucket / name).rename(plain_bucket / "broker/txn-0" / name)
    log = plain_bucket / "broker/txn-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    lost = ran("merge", "broker", "--topics", "txn", "--to", "lost", cwd=plain_bucket)
    assert (lost.code, "in no replica: 174–179" in lost.out) == (1, True)
    shown = ran("replicas", "broker", "plain", cwd=plain_bucket).out
    assert "kfmt merge broker plain --to DST" in shown
    keyed = ran("replicas", "broker", "plain", "--rsm-private-key", KEY, cwd=plain_bucket).out
    assert f"kfmt merge broker plain --to DST --rsm-private-key {KEY}" in keyed
    done = ran("merge", "broker", "plain", "--topics", "txn", "--to", "merged", cwd=plain_bucket)
    assert (done.code, "174–179 from plain/txn-0" in done.out) == (0, True)
    shutil.rmtree(plain_bucket / "broker/txn-0")  # its high watermark is in a checkpoint
    short = ran("merge", "broker", "plain", "--topics", "txn", "--to", "short", cwd=plain_bucket)
    assert (short.code, "in no replica: 635–735" in short.out) == (1, True)
    for name in sorted(path.name for path in (BROKER / "txn-0").glob("*.log")):
        assert (plain_bucket / "merged/txn-0" / name).read_bytes() == (
            BROKER / "txn-0" / name
        ).read_bytes()
