"""`kfmt pipeline compare`: two copies of partitions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_diff import built
from tests.support.rebuild import with_crc
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions, with_bytes
from tests.support.spark_job import Job
from tools.kafka import SAMPLES

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
]
BROKERS = [SAMPLES / f"kafka-3.9.1-broker{name}" for name in (1, 2)]
ORDERS_0 = ORDERS.parent
Range = tuple[str, str, int, int, str | None]


def ranges(to: Path) -> list[Range]:
    """Status, relation, offsets and reason of the rows of a job."""
    lines = (to / "ranges/part-0.jsonl").read_text().splitlines()
    names = ("status", "relation", "first_offset", "last_offset", "why")
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [tuple(row[name] for name in names) for row in rows]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of a partition of seven segments."""
    shutil.copytree(ORDERS_0, tmp_path / "b/orders-0")
    return tmp_path / "b/orders-0"


def compare(job: Job, a: Path, b: Path, code: int = 0, *options: str) -> list[Range]:
    to = b.parent.parent / "to"
    result = job("compare", a, b, "--to", to, "--format", "json", *options, code=code)
    assert result.out.count(f"exit {code}") == 1
    rows = ranges(to)
    if code == 1:
        worst = [row for row in rows if row[0] in ("differs", "missing")]
        assert all(f"{row[2]}–{row[3]}" in result.out for row in worst)
    return rows


def test_replicas_are_identical(job: Job, tmp_path: Path) -> None:
    a, b = (broker / "replicated-0" for broker in BROKERS)
    to = tmp_path / "to"
    for _ in range(2):  # the second time from stored columns
        result = job("compare", a, b, "--to", to, "--format", "json", "--max-split-bytes", "20000")
        assert ranges(to) == [("identical", "identical", 0, 3999, None)]
        assert "1 partition, 8 segments" in result.out


def test_a_copy_that_lacks_nothing_is_identical(job: Job, copied: Path) -> None:
    assert compare(job, ORDERS_0, copied) == [("identical", "identical", 0, 1499, None)]


@pytest.mark.parametrize("is_hidden", [False, True], ids=["checksum as it was", "checksum made"])
def test_a_flipped_byte(job: Job, copied: Path, is_hidden: bool) -> None:
    log = copied / ORDERS.name
    data = log.read_bytes()
    starts = positions(data)
    flipped = with_bytes(data, starts[3] + 300, bytes([data[starts[3] + 300] ^ 1]))
    batch = flipped[starts[3] : starts[4]]
    batch = with_crc(batch) if is_hidden else batch
    log.write_bytes(flipped[: starts[3]] + batch + flipped[starts[4] :])
    before, differing, after = compare(job, ORDERS_0, copied, 1)
    assert (before[0], after[0]) == ("identical", "identical")
    assert differing[:2] == ("differs", "diverged" if is_hidden else "damaged")
    assert before[3] < differing[2] <= differing[3] == after[2] - 1
    findings = (copied.parent.parent / "to/findings/part-0.jsonl").read_text()
    assert ("crc-mismatch" in findings) is not is_hidden


def test_a_batch_that_was_cut_out(job: Job, copied: Path) -> None:
    log = copied / ORDERS.name
    data = log.read_bytes()
    starts = positions(data)
    first = int.from_bytes(data[starts[2] : starts[2] + 8], "big")
    last = int.from_bytes(data[starts[3] : starts[3] + 8], "big") - 1
    log.write_bytes(data[: starts[2]] + data[starts[3] :])
    reason = "missing from the other"
    rows = compare(job, ORDERS_0, copied, 1)
    assert rows[1] == ("missing", "only in A", first, last, reason)
    assert [row[0] for row in rows] == ["identical", "missing", "identical"]


def test_retention_explains_what_a_copy_lacks_at_its_start_only(job: Job, copied: Path) -> None:
    logs = sorted(copied.glob("*.log"))
    for log in logs[:2]:
        log.unlink()
    begin = int(logs[2].stem)
    retained = ("explained", "only in A", 0, begin - 1, "the other starts later (retention)")
    expected = [retained, ("identical", "identical", begin, 1499, None)]
    assert compare(job, ORDERS_0, copied) == expected
    logs[-1].unlink()
    end = int(logs[-1].stem)
    shutil.rmtree(copied.parent.parent / "to")
    lacking = ("missing", "only in A", end, 1499, "the other has not caught up")
    assert compare(job, ORDERS_0, copied, 1)[-1] == lacking


def test_retention_of_all_segments_but_an_empty_one(job: Job, tmp_path: Path) -> None:
    (tmp_path / "b/orders-0").mkdir(parents=True)
    (tmp_path / "b/orders-0/00000000000000001500.log").touch()
    (row,) = compare(job, ORDERS_0, tmp_path / "b/orders-0")
    assert row[:4] == ("explained", "only in A", 0, 1499)


def test_compaction_explains_what_one_copy_lacks(job: Job, tmp_path: Path) -> None:
    source = BROKERS[0] / "compacted-0"
    rows = kfmt("dump", source, "--records", "--json").rows
    retained: list[dict[str, Any]] = []
    for row in rows:
        if row["type"] == "batch":
            n = row["records_count"]
            retained.append({name: value for name, value in row.items() if name != "records_count"})
            retained[-1] |= {} if n else {"records_count": 0}
        elif n == 1 or row["offset"] % 3:
            retained.append(row)
    (tmp_path / "lines").write_text("".join(json.dumps(row) + "\n" for row in retained))
    assert kfmt("build", tmp_path / "lines", tmp_path / "b/compacted-0").code == 0
    compared_rows = compare(job, source, tmp_path / "b/compacted-0")
    assert {row[:2] for row in compared_rows} >= {("explained", "compacted")}
    assert {row[0] for row in compared_rows} <= {"identical", "explained"}


def test_divergence_and_what_follows_it(job: Job, tmp_path: Path) -> None:
    common = [(n, 0, "both") for n in range(0, 100, 10)]
    a = built(tmp_path / "a/div-0", [*common, *((n, 0, "one") for n in range(100, 200, 10))])
    b = built(tmp_path / "b/div-0", [*common, *((n, 2, "two") for n in range(100, 150, 10))])
    assert [row[:4] for row in compare(job, a, b, 1)] == [
        ("identical", "identical", 0, 99),
        ("differs", "diverged", 100, 149),
        ("missing", "only in A", 150, 199),
    ]


def test_a_copy_without_leader_epochs_is_told_by_its_records(job: Job, tmp_path: Path) -> None:
    batches = [(n, 0, "same") for n in range(0, 100, 10)]
    a = built(tmp_path / "a/t-0", batches)
    b = built(tmp_path / "b/t-0", [(n, -1, value) for n, _, value in batches])
    assert [row[:4] for row in compare(job, a, b)] == [("explained", "compacted", 0, 99)]
    shutil.rmtree(tmp_path / "to")
    c = built(tmp_path / "c/t-0", [(n, -1, "other") for n in range(0, 100, 10)])
    assert {row[1] for row in compare(job, a, c, 1)} == {"diverged"}


def test_partitions_of_one_side_only(job: Job, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for directory, names in ((a, ("one-0", "both-0")), (b, ("both-0", "two-0"))):
        for name in names:
            built(directory / name, [(0, 0, "same")])
    to = tmp_path / "to"
    result = job("compare", a, b, "--to", to, "--format", "json", code=1)
    reason = "the partition is missing"
    assert ranges(to) == [
        ("identical", "identical", 0, 9, None),
        ("missing", "only in A", 0, 9, reason),
        ("missing", "only in B", 0, 9, reason),
    ]
    assert f"  one-0  0–9  missing in B: {reason}\n" in result.out
    assert f"  two-0  0–9  missing in A: {reason}\n" in result.out


@pytest.fixture
def table(job: Job, tmp_path: Path) -> Path:
    """An export of the partition of seven segments, a file for each two thirds of a segment."""
    options = ("--max-split-bytes", "20000")
    job("export", ORDERS_0, "--to", tmp_path / "x/table", "--one-file-per-partition", *options)
    return tmp_path / "x/table"


def record_files(table: Path) -> list[Path]:
    return sorted(table.glob("records/*.parquet"))


def test_segments_and_the_table_exported_from_them(job: Job, table: Path) -> None:
    assert len(record_files(table)) > 5
    for path in (table, table / "records"):
        assert compare(job, ORDERS_0, path) == [("identical", "identical", 0, 1499, None)]
        shutil.rmtree(path.parent.parent / "to")


def test_an_export_without_one_of_its_files(job: Job, table: Path) -> None:
    from pyarrow import parquet as pq

    for index in (0, 3, -1):
        path = record_files(table)[index]
        data = path.read_bytes()
        offsets = pq.read_table(path)["offset"].to_pylist()
        path.unlink()
        rows = compare(job, ORDERS_0, table, 1)
        reason = "missing from the other"
        lacking = ("missing", "only in A", offsets[0], offsets[-1], reason)
        assert [row for row in rows if row[0] != "identical"] == [lacking]
        assert sum(row[3] - row[2] + 1 for row in rows) == 1500
        path.write_bytes(data)
        shutil.rmtree(table.parent.parent / "to")
    record_files(table)[2].write_bytes(b"no Parquet")
    result = job("compare", ORDERS_0, table, "--to", table.parent / "to", code=3)
    assert f"{record_files(table)[2]}: Parquet magic bytes not found" in result.err


def test_a_table_with_other_records(job: Job, table: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet as pq

    file = record_files(table)[1]
    rows = pq.read_table(file)
    first = rows["offset"][0].as_py()
    changed = rows.to_pylist()
    changed[3]["value"] += b"!"
    changed[5]["headers"] = [{"key": "new", "value": None}]
    changed[7]["key"] = b"other"
    changed[9]["timestamp_ms"] += 1
    pq.write_table(pa.Table.from_pylist(changed, schema=rows.schema), file)
    compared_rows = compare(job, ORDERS_0, table, 1)
    differing = [row[2:4] for row in compared_rows if row[:2] == ("differs", "diverged")]
    assert differing == [(first + i, first + i) for i in (3, 5, 7, 9)]
    assert {row[0] for row in compared_rows} == {"differs", "identical"}


def test_retention_and_compaction_after_an_export(job: Job, table: Path, copied: Path) -> None:
    """Records missing from the segments are explained; a table has no retention."""
    logs = sorted(copied.glob("*.log"))
    logs[0].unlink()
    begin = int(logs[1].stem)
    retained = ("explained", "only in A", 0, begin - 1, "the other starts later (retention)")
    expected = [retained, ("identical", "identical", begin, 1499, None)]
    assert compare(job, table, copied) == expected


def test_compaction_after_an_export(job: Job, tmp_path: Path) -> None:
    source, to = BROKERS[0] / "orders-0", tmp_path / "a/table"
    job("export", source, "--to", to)
    rows = kfmt("dump", source, "--records", "--json").rows
    retained = [
        {name: value for name, value in row.items() if name != "records_count"}
        for row in rows
        if row["type"] == "batch" or row["offset"] % 20 in (0, 19) or row["offset"] % 3
    ]
    (tmp_path / "lines").write_text("".join(json.dumps(row) + "\n" for row in retained))
    assert kfmt("build", tmp_path / "lines", tmp_path / "b/orders-0").code == 0
    first, middle, last = compare(job, to, tmp_path / "b/orders-0")
    assert (first[0], middle[0], last[0]) == ("identical", "explained", "identical")
    assert (middle[1:4], last[2:4]) == (("compacted", 3, 1497), (1498, 1499))


def test_two_tables_and_several_partitions_in_a_file(job: Job, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for to in (a, b):
        job("export", BROKERS[0], "--to", to)
    to = tmp_path / "to"
    result = job("compare", a, b, "--to", to, "--format", "json")
    assert {row[0] for row in ranges(to)} == {"identical"}
    assert "17 partitions, 0 segments" in result.out
    result = job("compare", a, BROKERS[0], "--topics", "orders,txn", "--to", tmp_path / "some")
    assert "2 partitions" in result.out


def test_wrong_usage_and_inputs(job: Job, tmp_path: Path) -> None:
    to = tmp_path / "to"
    for paths in ((ORDERS_0,), (ORDERS_0, ORDERS_0), (ORDERS_0, *BROKERS)):
        assert "compare takes two paths, A and B" in job("compare", *paths, "--to", to, code=2).err
    assert job("compare", ORDERS_0, tmp_path / "none", "--to", to, code=3).err
    for name in ("disk1", "disk2"):
        shutil.copytree(ORDERS_0, tmp_path / f"two/{name}/orders-0")
    result = job("compare", ORDERS_0, tmp_path / "two", "--to", to, code=2)
    assert "are the same partition: compare with one of them at a time" in result.err
