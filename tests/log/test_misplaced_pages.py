"""Pages written at the wrong place: each undamaged batch is read, and salvaged or set aside."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.mutants import Mutant, check_mutant, move_page, swap_pages
from tests.support.rebuild import batch_of, record
from tests.support.samples import every_log, kfmt
from tests.support.segments import positions

HEADER_BYTES = 61
ALL_LOGS = [
    log
    for log in every_log()
    if log.suffix == ".log" and 150 < log.stat().st_size < 60_000 and "remote" not in log.parts
]
LOGS = [log for log in ALL_LOGS if log.read_bytes()[16] == 2]
MESSAGE_LOGS = [
    log for log in ALL_LOGS if log.read_bytes()[16] < 2 and log.read_bytes()[17] & 7 == 0
]


def misplaced_page_mutant(data: bytes, seed: str) -> Mutant:
    """A copy of a log with two pages exchanged, or with one moved."""
    mutant = Mutant.of(data)
    rng = random.Random(seed)
    rng.choice((swap_pages, move_page))(mutant, rng)
    return mutant


def is_inside_known_batch(mutant: Mutant, data: bytes, position: int, size: int) -> bool:
    """Whether the bytes are in those of a batch with a complete header."""
    for start, end in pairwise(positions(data)):
        header_start = mutant.position_of(start)
        if header_start is None or not header_start < position:
            continue
        header_origin = mutant.origin[header_start : header_start + HEADER_BYTES].tolist()
        if (
            header_origin == list(range(start, start + HEADER_BYTES))
            and position + size <= header_start + end - start
        ):
            return True
    return False


def count_lost_and_undamaged(
    part: int, logs: list[Path], seed: str, tmp_path: Path, may_lose_outside: bool
) -> tuple[int, int]:
    """The numbers of undamaged batches that are not read, and of all; none is made up, and none
    outside a known batch is lost unless it may be."""
    n_lost = n_undamaged = 0
    for index in range(part * 40, part * 40 + 40):
        log = logs[index % len(logs)]
        data = log.read_bytes()
        mutant = misplaced_page_mutant(data, f"{seed} {index}")
        verdict = check_mutant(mutant, data, positions(data), tmp_path / log.name)
        assert not verdict.phantoms, f"{index} {log}"
        for position, size in verdict.lost if not may_lose_outside else ():
            assert is_inside_known_batch(mutant, data, position, size), f"{index} {log} {position}"
        n_lost += len(verdict.lost)
        n_undamaged += len(mutant.undamaged_batches(positions(data)))
    return n_lost, n_undamaged


@pytest.mark.parametrize("part", range(8))
def test_batches_of_misplaced_pages_are_read(part: int, tmp_path: Path) -> None:
    n_lost, n_undamaged = count_lost_and_undamaged(part, LOGS, "page", tmp_path, False)
    assert n_lost <= n_undamaged // 1000


@pytest.mark.parametrize("part", range(4))
def test_messages_of_misplaced_pages_are_read(part: int, tmp_path: Path) -> None:
    """Nearly all: a compressed set contains messages, too, so that one alone proves nothing."""
    n_lost, n_undamaged = count_lost_and_undamaged(part, MESSAGE_LOGS, "message", tmp_path, True)
    assert n_lost <= n_undamaged // 2000


def test_an_embedded_batch_stays_in_a_readable_record(tmp_path: Path) -> None:
    inner = batch_of(record(b"k", b"inner"), 0, 1, 3)
    outer = bytearray(batch_of(record(b"a", inner + b"x") + record(b"b", inner), 0, 2, 0))
    outer[-3] ^= 1  # in the last record, after its key
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(bytes(outer) + batch_of(record(b"k", b"v"), 0, 1, 2))
    result = kfmt("verify-crc", "--json", log)
    assert [row["batches"] for row in result.of("file")] == [2]
    assert result.codes == ["crc-mismatch"]


def test_a_batch_before_batches_of_lower_offsets_is_kept(tmp_path: Path) -> None:
    batches = [batch_of(record(b"k", bytes([65 + i]) * 200), 0, 1, i) for i in range(6)]
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    # The first page of the log has the end of a later page, with the batch of offset 4 intact.
    log.write_bytes(batches[3][100:] + batches[4] + batches[5][:50] + b"".join(batches[:3]))
    result = kfmt("salvage", "--json", tmp_path / "t-0", tmp_path / "out")
    written = (tmp_path / "out" / log.name).read_bytes()
    assert written == b"".join([*batches[:3], batches[4]])
    assert [row["batches_after"] for row in result.of("file")] == [4]


@pytest.mark.parametrize("part", range(4))
def test_batches_of_misplaced_pages_are_salvaged_or_set_aside(part: int, tmp_path: Path) -> None:
    for index in range(part * 3, part * 3 + 3):
        log = LOGS[37 * index % len(LOGS)]
        source = tmp_path / f"{index}" / "t-0"
        shutil.copytree(log.parent, source)
        data = log.read_bytes()
        mutant = misplaced_page_mutant(data, f"salvage {index}")
        (source / log.name).chmod(0o644)
        (source / log.name).write_bytes(mutant.data)
        kfmt("salvage", source, tmp_path / f"{index}" / "out")
        written = set()
        for output in (tmp_path / f"{index}" / "out").rglob("*.log"):
            output_data = output.read_bytes()
            written |= {output_data[a:b] for a, b in pairwise(positions(output_data))}
        for position, size in mutant.undamaged_batches(positions(data)):
            batch = bytes(mutant.data[position : position + size])
            assert batch in written or is_inside_known_batch(mutant, data, position, size)
