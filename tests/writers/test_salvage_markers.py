"""`kfmt salvage` and `kfmt merge` write damaged transaction markers again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.broker.test_transaction_evidence import (
    FIELDS,
    KINDS_OF_DAMAGE,
    PARTITIONS,
    copy_partition,
    damaged,
    markers,
    read_committed,
)
from tests.interop.test_writers import needs_kafka
from tests.support.samples import kfmt
from tools import broker

LOG = "00000000000000000000.log"


def damage_markers(partition: Path, seed: random.Random, n_markers: int) -> dict[str, bytes]:
    """Damage some markers, each in one field; returns the logs as they were."""
    before = {log.name: log.read_bytes() for log in partition.glob("*.log")}
    places = [(name, start) for name in sorted(before) for start in markers(before[name])]
    for name, start in seed.sample(places, n_markers):
        data = (partition / name).read_bytes()
        field, kind = seed.choice(list(FIELDS)), seed.choice(KINDS_OF_DAMAGE)
        (partition / name).write_bytes(damaged(data, start, field, kind, seed))
    return before


def check(source: Path, scratch: Path, seed: random.Random, n_markers: int) -> Path:
    """Salvage a damaged copy; returns the result."""
    partition = copy_partition(source, scratch / source.name, with_other_files=True)
    expected, _ = read_committed(partition)
    before = damage_markers(partition, seed, n_markers)
    result = kfmt("salvage", partition, scratch / "out", "--json")
    restored = scratch / "out"
    found, committed = read_committed(restored)
    assert found == expected
    assert not committed.unknown_transactions
    for row in result.of("restored"):
        assert row["unknown"] == row["unmarked"] == 0
        assert 0 < row["committed"] + row["aborted"] <= n_markers
    assert {log.name: len(log.read_bytes()) for log in restored.glob("*.log")} == {
        name: len(data) for name, data in before.items()
    }
    return restored


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("source", PARTITIONS[:2], ids=lambda path: path.name)
def test_salvaged_logs_have_the_same_committed_records(
    source: Path, seed: int, tmp_path: Path
) -> None:
    check(source, tmp_path, random.Random(seed), n_markers=1 + seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("source", PARTITIONS[:2], ids=lambda path: path.name)
def test_salvaged_logs_have_the_same_committed_records_for_more_seeds(
    source: Path, seed: int, tmp_path: Path
) -> None:
    check(source, tmp_path, random.Random(seed), n_markers=1 + seed % 6)


@pytest.mark.interop
@pytest.mark.long
@needs_kafka
@pytest.mark.parametrize("recover", [False, True])
def test_real_consumers_get_the_same_committed_records(recover: bool, tmp_path: Path) -> None:
    salvaged = [
        check(source, tmp_path / f"{seed}-{source.name}", random.Random(seed), 1 + seed % 4)
        for seed in range(200, 206)
        for source in PARTITIONS[:2]
    ]
    expected = broker.consume_all(PARTITIONS[:2], False, "read_committed")
    served = broker.consume_all(salvaged, recover, "read_committed")
    for index, records in enumerate(served):
        assert records == expected[index % 2]


def test_a_marker_corrected_by_its_checksum_is_written_as_it_was(tmp_path: Path) -> None:
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=False)
    data = (partition / LOG).read_bytes()
    new = bytearray(data)
    for start in markers(data)[::2]:
        new[start + 69] ^= 1
    (partition / LOG).write_bytes(bytes(new))
    result = kfmt("salvage", partition, tmp_path / "out")
    assert "damaged transaction markers rewritten" in result.out
    assert (tmp_path / "out" / LOG).read_bytes() == data


def test_a_transaction_without_evidence_is_aborted_and_said(tmp_path: Path) -> None:
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=False)
    data = (partition / LOG).read_bytes()
    start = markers(data)[0]
    (partition / LOG).write_bytes(data[:start] + bytes(78) + data[start + 78 :])
    before, _ = read_committed(partition)
    result = kfmt("salvage", partition, tmp_path / "aborted", "--json")
    (row,) = result.of("restored")
    assert (row["committed"], row["aborted"], row["unknown"], row["unmarked"]) == (0, 0, 3, 2)
    assert (
        "damage hides how 3 transactions ended" in kfmt("salvage", partition, tmp_path / "text").out
    )
    committed = kfmt("salvage", partition, tmp_path / "committed", "--commit-unknown")
    assert "committed because of --commit-unknown" in committed.out
    assert read_committed(tmp_path / "aborted")[0] >= before
    assert read_committed(tmp_path / "committed")[0] > read_committed(tmp_path / "aborted")[0]


@pytest.mark.parametrize("is_damaged_everywhere", [True, False])
def test_merge_writes_a_marker_that_no_replica_has(
    is_damaged_everywhere: bool, tmp_path: Path
) -> None:
    source = PARTITIONS[0]
    expected, _ = read_committed(source)
    data = (source / LOG).read_bytes()
    new = bytearray(data)
    for start in markers(data)[4:9]:
        new[start + 40 : start + 78] = bytes(38)
    for name in ("a", "b"):
        copy = copy_partition(source, tmp_path / name / "txn-0", with_other_files=name == "b")
        if is_damaged_everywhere or name == "a":
            (copy / LOG).write_bytes(bytes(new))
    result = kfmt("merge", tmp_path / "a", tmp_path / "b", "--to", tmp_path / "out", "--json")
    found, _ = read_committed(tmp_path / "out" / "txn-0")
    assert found == expected
    rows = result.of("restored")
    counted = [(row["committed"] + row["aborted"], row["unknown"]) for row in rows]
    assert counted == ([(5, 0)] if is_damaged_everywhere else [])


def test_an_index_that_shows_a_missing_marker_is_not_replaced(tmp_path: Path) -> None:
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=True)
    data = (partition / LOG).read_bytes()
    start = markers(data)[0]
    (partition / LOG).write_bytes(data[:start] + data[start + 78 :])  # an ABORT: only a gap
    files = {path.name: path.read_bytes() for path in partition.glob("*.txnindex")}
    copy = tmp_path / "copy" / "txn-0"
    shutil.copytree(partition, copy)
    result = kfmt("rebuild-index", partition, "--in-place", "--all-files")
    assert result.code == 3
    assert "lacks the transaction marker at offset 18" in result.err
    assert {path.name: path.read_bytes() for path in partition.glob("*.txnindex")} == files
    assert kfmt("rebuild-index", copy, "--in-place", "--all-files", "--force").code == 0
    assert {path.name: path.read_bytes() for path in copy.glob("*.txnindex")} != files
