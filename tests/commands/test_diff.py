"""`kfmt diff`: two replicas of a partition."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kfmt_cli.broker.cluster.replica_comparison import (
    LeaderEpochs,
    ReplicaBatch,
    ReplicaBatches,
    ReplicaRelation,
    compare_replicas,
    compute_truncation_offset,
)
from tests.support.broken_partitions import ORDERS, sample
from tests.support.rebuild import with_crc
from tests.support.samples import Done, kfmt
from tests.support.segments import int32, positions, with_bytes
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"


def built(directory: Path, values: list[tuple[int, int, str]]) -> Path:
    """Build a partition of batches of ten records: first offset, leader epoch, label in values."""
    lines: list[dict[str, Any]] = []
    for first, epoch, label in values:
        batch = {"type": "batch", "magic": 2, "base_offset": first, "partition_leader_epoch": epoch}
        lines.append(batch)
        for offset in range(first, first + 10):
            record = {"type": "record", "offset": offset, "timestamp": 1, "key": f"k{offset % 7}"}
            lines.append({**record, "value": f"{label}-{offset}"})
    file = directory.with_suffix(".jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert kfmt("build", file, directory).code == 0
    return directory


def one_record_batches(directory: Path, keys_by_offset: dict[int, str | None]) -> Path:
    """Build a partition with a batch for each record, as with linger.ms=0."""
    lines: list[dict[str, Any]] = []
    for offset, key in keys_by_offset.items():
        lines.append({"type": "batch", "magic": 2, "base_offset": offset})
        record = {"type": "record", "offset": offset, "timestamp": 1, "key": key}
        lines.append({**record, "value": f"value {offset}"})
    file = directory.with_suffix(".jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert kfmt("build", file, directory).code == 0
    return directory


def verdict(result: Done) -> dict[str, Any]:
    (row,) = result.of("diff")
    return row


def relations(result: Done) -> list[tuple[str, int, int]]:
    return [
        (row["relation"], row["first_offset"], row["last_offset"]) for row in result.of("range")
    ]


def test_replicas_that_are_the_same() -> None:
    left, right = (SAMPLES / f"kafka-3.9.1-broker{name}/replicated-0" for name in (1, 2))
    result = kfmt("diff", left, right, "--json")
    assert (result.code, relations(result)) == (0, [("identical", 0, 3999)])
    assert verdict(result)["verdict"] == "identical"
    assert kfmt("diff", left, left).out.endswith("identical; log end offset: A 4000, B 4000\n")


@pytest.mark.parametrize(
    ("keys", "kept_offsets", "expected"),
    [
        # The cleaner has removed 2–5, whose keys have later records.
        ("abcdefcdefg", (0, 1, 6, 7, 8, 9, 10), "consistent"),
        ("abcdefcdefg", (0, 1, 2, 6, 7, 8, 9, 10), "consistent"),
        ("abcdefcdexg", (0, 1, 6, 7, 8, 9, 10), "missing"),  # f has none
        ("abcdefcdefg", (0, 1, 7, 8, 9, 10), "missing"),  # the last c
        ("abacdefcdefg", (0, 1, 2, 7, 8, 9, 10, 11), "missing"),  # a stands twice: not compacted
    ],
)
def test_what_compaction_removed_is_not_missing(
    tmp_path: Path, keys: str, kept_offsets: tuple[int, ...], expected: str
) -> None:
    a = one_record_batches(tmp_path / "a/t-0", dict(enumerate(keys)))
    b = one_record_batches(tmp_path / "b/t-0", {n: keys[n] for n in kept_offsets})
    for left, right in ((a, b), (b, a)):
        result = kfmt("diff", left, right, "--json")
        assert verdict(result)["verdict"] == expected
        assert result.code == (expected == "missing")
        reasons = {row["why"] for row in result.of("range") if "why" in row}
        assert ("removed by compaction" in reasons) == (expected == "consistent")


@pytest.mark.parametrize("change", ["no key", "a wrong checksum"])
def test_what_compaction_cannot_have_removed_is_missing(tmp_path: Path, change: str) -> None:
    a = one_record_batches(
        tmp_path / "a/t-0", {0: "a", 1: None if change == "no key" else "b", 2: "b", 3: "c"}
    )
    b = one_record_batches(tmp_path / "b/t-0", {0: "a", 2: "b", 3: "c"})
    if change == "a wrong checksum":
        log = a / f"{0:020}.log"
        log.write_bytes(with_bytes(log.read_bytes(), positions(log.read_bytes())[1] + 60, b"x"))
    assert verdict(kfmt("diff", a, b, "--json"))["verdict"] != "consistent"


def test_a_divergence_is_found_where_it_begins(tmp_path: Path) -> None:
    common = [(n, 0, "both") for n in range(0, 300, 10)]
    a = built(tmp_path / "a/div-0", [*common, *((n, 0, "one") for n in range(300, 500, 10))])
    b = built(tmp_path / "b/div-0", [*common, *((n, 2, "two") for n in range(300, 450, 10))])
    result = kfmt("diff", a, b, "--json")
    assert result.code == 1
    assert relations(result) == [
        ("identical", 0, 299),
        ("diverged", 300, 449),
        ("only in A", 450, 499),
    ]
    row = verdict(result)
    assert (row["verdict"], row["diverged_at"], row["later"]) == ("diverged", 300, "B")
    assert (row["a_end"], row["b_end"]) == (500, 450)
    output = kfmt("diff", tmp_path / "a", tmp_path / "b").out
    assert "diverged at offset 300: latest leader epoch A 0, B 2" in output
    assert "only in A: 300–499; only in B: 300–449" in output


def test_a_replica_that_is_behind_or_begins_later_has_not_diverged(tmp_path: Path) -> None:
    batches = [(n, 0, "both") for n in range(0, 100, 10)]
    a = built(tmp_path / "a/t-0", batches)
    b = built(tmp_path / "b/t-0", batches[:6])
    result = kfmt("diff", a, b, "--json")
    assert (result.code, verdict(result)["verdict"]) == (0, "consistent")
    assert result.of("range")[-1]["why"] == "the other has not caught up"
    c = built(tmp_path / "c/t-0", batches[3:])
    result = kfmt("diff", a, c, "--json")
    assert (result.code, verdict(result)["verdict"]) == (0, "consistent")
    assert result.of("range")[0]["why"] == "the other starts later (retention)"
    d = built(tmp_path / "d/t-0", [*batches[:3], *batches[5:]])
    result = kfmt("diff", a, d, "--json")
    assert (result.code, verdict(result)["verdict"]) == (1, "missing")
    assert relations(result)[1] == ("only in A", 30, 49)


def test_compaction_is_no_divergence(tmp_path: Path) -> None:
    rows = kfmt("dump", BROKER / "compacted-0", "--records", "--json").rows
    retained = []
    for row in rows:
        if row["type"] == "batch":
            n_records = row["records_count"]
            retained.append({name: value for name, value in row.items() if name != "records_count"})
            retained[-1] |= {"records_count": 0} if not n_records else {}
        elif n_records == 1 or row["offset"] % 3:
            retained.append(row)
    (tmp_path / "lines").write_text("".join(json.dumps(row) + "\n" for row in retained))
    assert kfmt("build", tmp_path / "lines", tmp_path / "b/compacted-0").code == 0
    result = kfmt("diff", BROKER / "compacted-0", tmp_path / "b/compacted-0", "--json")
    assert (result.code, verdict(result)["verdict"]) == (0, "consistent"), result.out[-2000:]
    assert "compacted" in {row["relation"] for row in result.of("range")}


def test_damage_is_reported(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0")
    log = tmp_path / "orders-0/00000000000000000240.log"
    data = bytearray(log.read_bytes())
    data[13400] ^= 1
    log.write_bytes(data)
    result = kfmt("diff", BROKER / "orders-0", tmp_path / "orders-0", "--json")
    assert result.code == 1
    assert "crc-mismatch" in result.codes


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (BROKER / "txn-0", "orders-0 and txn-0 are two topics, not replicas"),
        (SAMPLES / "kafka-3.9.1-broker2/txn-1", "txn-0 and txn-1 are two partitions, not replicas"),
    ],
    ids=["topics", "partitions"],
)
def test_partitions_that_are_no_replicas_are_named(other: Path, message: str) -> None:
    replica = BROKER / ("orders-0" if other.name == "txn-0" else "txn-0")
    result = kfmt("diff", replica, other)
    assert f"{message}: their records differ from offset 0 onward\n" in result.out
    assert "diverged at" not in result.out
    assert "truncated" not in result.out
    (row,) = kfmt("diff", replica, other, "--json").of("diff")
    assert (result.code, row["verdict"], row["cut_to"]) == (1, "diverged", None)


def test_wrong_usage(tmp_path: Path) -> None:
    assert kfmt("diff", tmp_path / "x", BROKER).code == 3
    (tmp_path / "a-0").mkdir()
    assert kfmt("diff", tmp_path, BROKER).code == 3
    assert kfmt("diff", SAMPLES / "kafka-0.8.2.2", BROKER).code == 2


def test_ranges_of_batches() -> None:
    def batch(base: int, last: int, epoch: int = 0, crc: int = 1) -> ReplicaBatch:
        return ReplicaBatch(base, last, epoch, crc)

    def compared(
        a: list[ReplicaBatch], b: list[ReplicaBatch], diverged_at: int | None
    ) -> list[tuple[ReplicaRelation, int, int]]:
        offset_ranges = compare_replicas(columns(a), columns(b), lambda *_: diverged_at)
        return [
            (offset_range.relation, offset_range.first_offset, offset_range.last_offset)
            for offset_range in offset_ranges
        ]

    def columns(batches: list[ReplicaBatch]) -> list[ReplicaBatches]:
        """Chunks of two batches; the last may have one."""
        rows = [
            [
                replica_batch.base_offset,
                replica_batch.last_offset,
                replica_batch.leader_epoch,
                replica_batch.crc,
            ]
            for replica_batch in batches
        ]
        chunks = [np.array(rows[i : i + 2]).T for i in range(0, len(rows), 2)]
        return [ReplicaBatches(chunk, np.ones(chunk.shape[1], np.bool_)) for chunk in chunks]

    same = [batch(0, 9), batch(10, 19)]
    assert compared(same, same, None) == [(ReplicaRelation.IDENTICAL, 0, 19)]
    assert compared(same, [batch(0, 19, crc=2)], None) == [(ReplicaRelation.COMPACTED, 0, 19)]
    assert compared(same, [batch(0, 9), batch(10, 14, 1)], 12) == [
        (ReplicaRelation.IDENTICAL, 0, 9),
        (ReplicaRelation.DIVERGED, 12, 14),
        (ReplicaRelation.ONLY_A, 15, 19),
    ]
    assert compared([], same, None) == [(ReplicaRelation.ONLY_B, 0, 19)]
    long = [batch(n, n + 9) for n in range(0, 70, 10)]
    assert compared(long, [*long[:3], batch(30, 39, crc=2), *long[4:]], 33) == [
        (ReplicaRelation.IDENTICAL, 0, 29),
        (ReplicaRelation.DIVERGED, 33, 39),
        (ReplicaRelation.IDENTICAL, 40, 69),
    ]
    assert compared(long, [*long[:3], *long[4:]], None) == [
        (ReplicaRelation.IDENTICAL, 0, 29),
        (ReplicaRelation.ONLY_A, 30, 39),
        (ReplicaRelation.IDENTICAL, 40, 69),
    ]


def test_other_headers_are_a_divergence(tmp_path: Path) -> None:
    partitions = []
    for label in ("one", "two"):
        headers = [{"key": "who", "value": label}]
        line = json.dumps({"value": "x", "timestamp": 1, "headers": headers})
        result = kfmt("build", "-", tmp_path / label / "t-0", stdin=line.encode())
        assert result.code == 0, result.err
        partitions.append(tmp_path / label / "t-0")
    result = kfmt("diff", *partitions, "--json")
    assert (result.code, verdict(result)["diverged_at"]) == (1, 0)


def test_what_is_damaged_is_not_said_to_be_the_same(tmp_path: Path) -> None:
    for name, position in (("value", 800), ("crc", 2575 + 17)):
        damaged = shutil.copytree(BROKER / "orders-0", tmp_path / name / "orders-0")
        log = min(damaged.glob("*.log"))
        data = bytearray(log.read_bytes())
        data[position] ^= 1
        log.write_bytes(data)
        result = kfmt("diff", BROKER / "orders-0", damaged, "--json")
        first = 0 if name == "value" else 20
        assert ("damaged", first, first + 19) in relations(result)
        assert (result.code, verdict(result)["verdict"]) == (1, "damaged")


def test_offsets_inside_of_wrappers_are_compared() -> None:
    old = SAMPLES / "kafka-2.8.2"
    result = kfmt("diff", old / "v0-gzip-0", old / "v0-none-0", "--json")
    assert result.code == 0
    assert {relation for relation, _, _ in relations(result)} <= {"compacted", "identical"}


def test_ranges_of_one_replica_begin_at_the_divergence(tmp_path: Path) -> None:
    log = BROKER / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[2575 + 14] ^= 1
    file = tmp_path / "orders-0" / log.name
    file.parent.mkdir()
    file.write_bytes(data)
    assert "only in A: 20–39; only in B: 20–39\n" in kfmt("diff", log, file).out


def test_a_directory_is_the_same_as_itself(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(BROKER / "orders-0", tmp_path / "both" / name / "orders-0")
    result = kfmt("diff", tmp_path / "both", tmp_path / "both", "--json")
    assert result.code == 0
    assert [row["file"] for row in result.of("diff")] == [
        str(tmp_path / "both" / name / "orders-0") for name in ("one", "two")
    ]
    shutil.copytree(BROKER, tmp_path / "other")
    result = kfmt("diff", tmp_path / "other", tmp_path / "both")
    assert result.code == 2
    assert "have the same name" in result.err


def test_standard_input_is_no_replica() -> None:
    assert kfmt("diff", "-", "-").code == 2


@pytest.mark.parametrize(
    ("follower", "leader", "expected"),
    [
        (LeaderEpochs({0: 0}, 900), LeaderEpochs({0: 0, 2: 300}, 700), 300),
        (LeaderEpochs({0: 0, 1: 300}, 900), LeaderEpochs({0: 0, 2: 300}, 700), 300),
        (LeaderEpochs({0: 0, 1: 200, 2: 500}, 900), LeaderEpochs({0: 0, 1: 200, 3: 400}, 700), 400),
        (LeaderEpochs({0: 0}, 250), LeaderEpochs({0: 0, 2: 300}, 700), 250),
        (LeaderEpochs({3: 100}, 250), LeaderEpochs({5: 50}, 700), 0),
    ],
)
def test_a_follower_is_cut_where_its_epoch_ends(
    follower: LeaderEpochs, leader: LeaderEpochs, expected: int
) -> None:
    assert compute_truncation_offset(follower, leader) == expected


def test_diverged_replicas_name_their_truncation(tmp_path: Path) -> None:
    for replica, epoch in (("a", 0), ("b", 2)):
        directory = tmp_path / replica / "orders-0"
        directory.mkdir(parents=True)
        for file, content in sample(ORDERS).items():
            if not file.endswith(".log") or int(file[:20]) > 240:
                continue
            data = content
            for position in positions(data)[:-1]:
                if int.from_bytes(data[position : position + 8], "big") >= 300 and replica == "b":
                    end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
                    changed_batch = with_crc(
                        with_bytes(data[position:end], end - position - 5, b"!")
                    )
                    data = (
                        data[:position] + with_bytes(changed_batch, 12, int32(epoch)) + data[end:]
                    )
            (directory / file).write_bytes(data)
    result = kfmt("diff", tmp_path / "a", tmp_path / "b", "--json")
    assert result.code == 1
    (row,) = result.of("diff")
    # In the first differing batch, only the last record differs; its epoch begins at 300.
    assert (row["diverged_at"], row["later"], row["cut_to"]) == (319, "B", 300)
    assert "A is truncated to offset 300" in kfmt("diff", tmp_path / "a", tmp_path / "b").out
    # The latest epoch decides, not the one at the fork.
    (tmp_path / "a/orders-0/leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 460\n")
    (row,) = kfmt("diff", tmp_path / "a", tmp_path / "b", "--json").of("diff")
    assert (row["a_latest_epoch"], row["b_latest_epoch"]) == (4, 2)
    assert (row["diverged_at"], row["later"], row["cut_to"]) == (319, "A", 300)
