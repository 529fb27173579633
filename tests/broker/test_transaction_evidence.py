"""Damaged transaction markers: the committed records stay the same, or the difference is said.

Each marker of each sample is damaged in each of its fields, with the files next to the logs and
without them. `.ci/long` does all; by default, some.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from itertools import compress, pairwise
from pathlib import Path

import pytest
from crc32c import crc32c

from kfmt_cli.broker.transactions.damaged_markers import read_damaged_batch
from kfmt_cli.broker.transactions.transactions import read_committed_records
from kfmt_cli.commands.each_partition import iter_log_blocks
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.log.selection.committed_records import CommittedRecords
from tests.support.samples import kfmt
from tests.support.segments import positions
from tools.kafka import SAMPLES

PARTITIONS = [
    SAMPLES / "kafka-3.9.1-broker1/txn-0",
    SAMPLES / "kafka-3.9.1-broker2/txn-1",
    SAMPLES / "kafka-3.9.1-live/txn-0",
]
FIELDS = {
    "base offset": (0, 8),
    "length": (8, 12),
    "leader epoch": (12, 16),
    "magic": (16, 17),
    "checksum": (17, 21),
    "attributes": (21, 23),
    "last offset delta": (23, 27),
    "timestamps": (27, 43),
    "producer id": (43, 51),
    "producer epoch": (51, 53),
    "base sequence": (53, 57),
    "records count": (57, 61),
    "record": (61, 66),
    "type": (66, 70),
    "value": (70, 78),
    "everything": (0, 78),
}
KINDS_OF_DAMAGE = ("one bit", "zeros", "noise")


def copy_partition(source: Path, directory: Path, *, with_other_files: bool) -> Path:
    directory.mkdir(parents=True)
    for file in source.iterdir():
        if with_other_files or file.suffix == ".log":
            shutil.copy(file, directory)
    return directory


def damaged(data: bytes, start: int, field: str, kind: str, seed: random.Random) -> bytes:
    first, end = FIELDS[field]
    if kind == "one bit":
        position = start + seed.randrange(first, end)
        new = bytes([data[position] ^ 1 << seed.randrange(8)])
    else:
        position = start + first
        new = bytes(end - first) if kind == "zeros" else seed.randbytes(end - first)
    return data[:position] + new + data[position + len(new) :]


def markers(data: bytes) -> list[int]:
    return [start for start, _ in pairwise(positions(data)) if data[start + 22] & 0x20]


def read_committed(directory: Path) -> tuple[set[int], CommittedRecords]:
    """The base offsets of the batches that consumers receive."""
    logs = list_directory(str(directory)).logs
    committed = read_committed_records(logs, (block for _, block in iter_log_blocks(logs)))
    base_offsets: set[int] = set()
    for _, block in iter_log_blocks(logs):
        batches = block.batches
        is_delivered = committed.delivered_mask(batches) & (batches.crc_valid == 1)
        base_offsets.update(batches.base_offset[is_delivered].tolist())
    return base_offsets, committed


def iter_cases(
    directory: Path, seed: random.Random, every: int
) -> Iterator[tuple[str, str, set[int], CommittedRecords]]:
    """Damage one marker after another; yields what is read then."""
    number = seed.randrange(every)
    for log in sorted(directory.glob("*.log")):
        data = log.read_bytes()
        for start in markers(data):
            for field in FIELDS:
                for kind in KINDS_OF_DAMAGE:
                    number += 1
                    if number % every == 0:
                        log.write_bytes(damaged(data, start, field, kind, seed))
                        yield field, f"{log.name} {start} {kind}", *read_committed(directory)
        log.write_bytes(data)


def check(source: Path, directory: Path, *, with_other_files: bool, every: int) -> None:
    copy = copy_partition(source, directory, with_other_files=with_other_files)
    expected, _ = read_committed(copy)
    n_unknown = n_cases = 0
    for field, case, found, committed in iter_cases(copy, random.Random(7), every):
        n_cases += 1
        if found != expected:
            assert committed.unknown_transactions, (field, case)
            assert found < expected, (field, case)
            assert field in ("everything", "timestamps"), (field, case)
            n_unknown += 1
    assert n_cases
    assert n_unknown <= n_cases / 8
    if with_other_files and "live" not in str(source):  # its active segment has no indexes
        assert n_unknown == 0


@pytest.mark.parametrize("with_other_files", [True, False])
@pytest.mark.parametrize("source", PARTITIONS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_damaged_markers_change_no_outcome_in_silence(
    source: Path, with_other_files: bool, tmp_path: Path
) -> None:
    check(source, tmp_path / source.name, with_other_files=with_other_files, every=97)


@pytest.mark.long
@pytest.mark.parametrize("with_other_files", [True, False])
@pytest.mark.parametrize("source", PARTITIONS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_each_damaged_marker_in_each_field(
    source: Path, with_other_files: bool, tmp_path: Path
) -> None:
    check(source, tmp_path / source.name, with_other_files=with_other_files, every=1)


@pytest.mark.parametrize("source", PARTITIONS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_marker_is_encoded_as_it_was_read(source: Path) -> None:
    for log in sorted(source.glob("*.log")):
        data = log.read_bytes()
        for start in markers(data):
            batch = data[start : start + 78]
            found, is_certain = read_damaged_batch(batch, {})
            assert is_certain
            assert found is not None
            assert found.encode() == batch


def test_a_batch_of_records_is_no_marker() -> None:
    data = (PARTITIONS[0] / "00000000000000000000.log").read_bytes()
    for start, end in pairwise(positions(data)):
        if data[start + 22] & 0x20:
            continue
        assert read_damaged_batch(data[start:end], {0: 0}) == (None, True)
        small = bytearray(data[start : start + 78])
        small[17:21] = crc32c(bytes(small[21:])).to_bytes(4, "big")
        small[30] ^= 1
        assert read_damaged_batch(bytes(small), {0: 0}) == (None, True)
    assert read_damaged_batch(bytes(78), {0: 0}) == (None, False)
    assert read_damaged_batch(random.Random(1).randbytes(78), {0: 0}) == (None, False)


def test_outcomes_that_nothing_shows_are_said(tmp_path: Path) -> None:
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=False)
    log = partition / "00000000000000000000.log"
    data = log.read_bytes()
    start = markers(data)[0]
    log.write_bytes(data[:start] + bytes(78) + data[start + 78 :])
    result = kfmt("cat", partition, "--isolation", "read_committed", "-f", "%o\\n")
    assert "damage hides how 3 transactions ended (offsets 0–5, 6–11, 12–17)" in result.err
    assert "--commit-unknown" in result.err
    withheld = set(result.out.split())
    committed = kfmt(
        "cat", partition, "--isolation", "read_committed", "--commit-unknown", "-f", "%o\\n"
    )
    assert {*committed.out.split()} - withheld == {*map(str, range(18))}
    assert "count as committed" in committed.err
    txn = kfmt("txn", partition, "--json")
    (summary,) = txn.of("transactions")
    assert summary["unknown"] == 3
    unknown = [row for row in txn.of("transaction") if row["outcome"] == "unknown"]
    assert [row["evidence"] for row in unknown] == [None] * 3
    assert sum(row["evidence"] == "marker" for row in txn.of("transaction")) == 90


def test_txn_names_the_evidence(tmp_path: Path) -> None:
    partition = copy_partition(PARTITIONS[0], tmp_path / "txn-0", with_other_files=True)
    log = partition / "00000000000000000000.log"
    data = log.read_bytes()
    first, second = markers(data)[:2]
    new = bytearray(data)
    new[first + 69] ^= 1  # ABORT becomes COMMIT
    new[second : second + 78] = bytes(78)
    log.write_bytes(bytes(new))
    rows = {row["marker_offset"]: row for row in kfmt("txn", partition, "--json").of("transaction")}
    assert (rows[18]["outcome"], rows[18]["evidence"]) == ("aborted", "damaged marker")
    assert (rows[19]["outcome"], rows[19]["evidence"]) == ("committed", "transaction index")
    assert (rows[20]["outcome"], rows[20]["evidence"]) == ("committed", "marker")


def delivered_and_readable(directory: Path) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The undamaged batches of records that consumers receive, and all of them: base offset and
    checksum."""
    logs = list_directory(str(directory)).logs
    _, committed = read_committed(directory)
    delivered: set[tuple[int, int]] = set()
    readable: set[tuple[int, int]] = set()
    for _, block in iter_log_blocks(logs):
        batches = block.batches
        keys = list(zip(batches.base_offset.tolist(), batches.crc.tolist(), strict=True))
        is_readable = (batches.crc_valid == 1) & (batches.control == 0)
        readable.update(compress(keys, is_readable.tolist()))
        delivered.update(compress(keys, (is_readable & committed.delivered_mask(batches)).tolist()))
    return delivered, readable


def damage_anywhere(log: Path, seed: random.Random) -> None:
    """Flip a bit, overwrite or cut out some bytes."""
    data = bytearray(log.read_bytes())
    position, n_bytes = seed.randrange(len(data)), seed.randint(1, 400)
    n_bytes = min(n_bytes, len(data) - position)
    kind = seed.randrange(4)
    if kind == 0:
        data[position] ^= 1 << seed.randrange(8)
    elif kind == 3:
        del data[position : position + n_bytes]
    else:
        new = bytes(n_bytes) if kind == 1 else seed.randbytes(n_bytes)
        data[position : position + n_bytes] = new
    log.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("seed", "n_cases"),
    [
        (1, 25),
        *(pytest.param(seed, 300, marks=pytest.mark.long) for seed in range(10, 16)),
    ],
)
def test_damage_anywhere_changes_no_outcome_in_silence(
    seed: int, n_cases: int, tmp_path: Path
) -> None:
    """Undamaged batches of committed transactions are delivered, those of aborted ones are not,
    unless it is said that their outcome is unknown."""
    random_ = random.Random(seed)
    for case in range(n_cases):
        source = random_.choice(PARTITIONS[:2])
        copy = copy_partition(
            source, tmp_path / str(case) / "txn-0", with_other_files=random_.random() < 0.6
        )
        for _ in range(random_.randint(1, 5)):
            logs = [log for log in sorted(copy.glob("*.log")) if log.stat().st_size]
            damage_anywhere(random_.choice(logs), random_)
        delivered, readable = delivered_and_readable(copy)
        committed, undamaged = delivered_and_readable(source)
        assert delivered & undamaged <= committed, (seed, case)
        unknown = read_committed(copy)[1].unknown_transactions
        missing = (committed & readable) - delivered
        assert all(
            any(first <= offset <= last for _, first, last in unknown) for offset, _ in missing
        ), (seed, case)
        shutil.rmtree(copy.parent)
