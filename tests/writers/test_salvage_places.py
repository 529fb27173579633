"""`kfmt salvage` where batches, segments and names contradict each other: nothing undamaged is
lost."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import combined_cases
from tests.support.broken_partitions import ORDERS, name, sample
from tests.support.combined_cases import combined
from tests.support.samples import Done, kfmt
from tests.support.segments import positions, with_bytes
from tools.observe import Files

CONFLICTS = "contradicting"


def batches_of(data: bytes) -> list[bytes]:
    """The batches of a log, as far as their lengths are valid."""
    batches, start = [], 0
    while start + 12 <= len(data):
        end = start + 12 + struct.unpack_from(">i", data, start + 8)[0]
        if not start + 26 <= end <= len(data):
            break
        batches.append(data[start:end])
        start = end
    return batches


def salvaged(files: Files, directory: Path) -> tuple[Done, bytes, bytes]:
    """The result of salvage, and the bytes of the logs it writes: in order, and contradicting."""
    source, out = directory / "in/orders-0", directory / "out"
    source.mkdir(parents=True)
    for file, data in files.items():
        (source / file).write_bytes(data)
    result = kfmt("salvage", source, out, "--json")
    logs = sorted(out.rglob("*.log"))
    main = [log for log in logs if CONFLICTS not in str(log.relative_to(out))]
    if main:
        assert kfmt("verify-crc", "--deep", *main).code == 0
        assert kfmt("index-check", *main).code == 0
    conflicting = [log for log in logs if log not in main]
    return (
        result,
        b"".join(path.read_bytes() for path in main),
        b"".join(item.read_bytes() for item in conflicting),
    )


def every_batch() -> list[bytes]:
    files = sample(ORDERS)
    return [
        data for file in sorted(files) if file.endswith(".log") for data in batches_of(files[file])
    ]


def moved(files: Files) -> Files:
    """A batch at the end of its log."""
    data = files[name(240)]
    start, end = positions(data)[3:5]
    return {**files, name(240): data[:start] + data[end:] + data[start:end]}


def exchanged(files: Files) -> Files:
    return {**files, name(240): files[name(480)], name(480): files[name(240)]}


def joined(files: Files) -> Files:
    """A log that also has the next log's batches, one of which is damaged in the next log."""
    data = files[name(480)]
    damaged = with_bytes(data, positions(data)[2] + 90, b"\xff")
    return {**files, name(240): files[name(240)] + data, name(480): damaged}


def swapped(files: Files) -> Files:
    """A complete .swap file, and no log under its final name."""
    remaining = {file: data for file, data in files.items() if file != name(480)}
    return {**remaining, f"{name(480)}.swap": files[name(480)]}


def short(files: Files) -> Files:
    """A log with a short name that a broker accepts, and without an index of that name."""
    remaining = {file: data for file, data in files.items() if file != name(720)}
    return {**remaining, "720.log": files[name(720)]}


def renamed(files: Files) -> Files:
    remaining = {file: data for file, data in files.items() if file != name(720)}
    return {**remaining, name(719): files[name(720)]}


def far(files: Files) -> Files:
    """A last log whose name is not the offset of its batches."""
    remaining = {file: data for file, data in files.items() if file != name(1440)}
    return {**remaining, name(9999999999): files[name(1440)]}


def emptied(files: Files) -> Files:
    """An empty last segment, below offsets of the log before it."""
    return {**files, name(1200): files[name(1200)] + files[name(1440)], name(1440): b""}


@pytest.mark.parametrize(
    "change",
    [moved, exchanged, joined, swapped, short, renamed, far, emptied],
    ids=lambda item: item.__name__,
)
def test_every_batch_finds_its_place(change: Callable[[Files], Files], tmp_path: Path) -> None:
    result, main, conflicting = salvaged(change(sample(ORDERS)), tmp_path)
    assert batches_of(main) == every_batch()
    assert not conflicting
    assert not result.of("missing")
    start = kfmt("check", tmp_path / "out", "--json").of("broker_start")[0]
    assert start["log_end_offset"] == 1500


def test_offsets_that_another_log_has_are_not_lost(tmp_path: Path) -> None:
    """A copy of a log, under a name that is an offset inside its first batch."""
    files = sample(ORDERS)
    result, main, _ = salvaged({**files, name(485): files[name(480)]}, tmp_path)
    assert batches_of(main) == every_batch()
    holes = result.of("hole")
    assert holes
    assert {(hole["first_offset"], hole["last_offset"]) for hole in holes} == {(None, None)}
    assert not result.of("missing")


def test_of_two_batches_that_contradict_each_other_one_is_set_aside(tmp_path: Path) -> None:
    files = dict(sample(ORDERS))
    data = files[name(240)]
    starts = positions(data)
    contradicting_batch = struct.pack(">q", 240 + 20 * 7) + data[starts[4] + 8 : starts[5]]
    files[name(240)] = data[: starts[4]] + contradicting_batch + data[starts[5] :]
    result, main, conflicting = salvaged(files, tmp_path)
    batches = every_batch()
    assert batches_of(main) == [*batches[:16], *batches[17:]]
    assert batches_of(conflicting) == [contradicting_batch]
    (row,) = result.of("rearranged")
    assert (row["aside_batches"], row["copies"]) == (1, 0)
    (missing,) = result.of("missing")
    assert (missing["offsets"], missing["ranges"]) == (20, [[320, 339]])


def test_a_wrong_offset_takes_no_batch_behind_other_damage_along(tmp_path: Path) -> None:
    """One bit of an offset, and damage right after it."""
    batches = every_batch()
    for bit in range(0, 40, 3):
        files = dict(sample(ORDERS))
        data = files[name(240)]
        starts = positions(data)
        offset = struct.unpack_from(">q", data, starts[3])[0] ^ 1 << bit
        data = with_bytes(data, starts[3], struct.pack(">q", offset))
        files[name(240)] = with_bytes(data, starts[4] + 80, b"\xff\xff\xff")
        _, main, conflicting = salvaged(files, tmp_path / str(bit))
        salvaged_batches = set(batches_of(main)) | set(batches_of(conflicting))
        assert salvaged_batches >= {*batches[:15], *batches[17:]}, bit
        assert {*batches_of(main)} >= {*batches[:15], *batches[17:]}, bit


def test_the_summary_says_what_is_missing(tmp_path: Path) -> None:
    files = {file: data for file, data in sample(ORDERS).items() if file != name(240)}
    result, _, _ = salvaged(files, tmp_path)
    (missing,) = result.of("missing")
    assert (missing["offsets"], missing["ranges"]) == (240, [[240, 479]])
    out = kfmt("salvage", tmp_path / "in", tmp_path / "again").out
    assert "240 offsets missing: 240–479" in out
    assert "240 offsets missing (lost, or already removed by compaction)" in out


@pytest.mark.parametrize("offset", [1 << 31, (1 << 31) - 10, 1 << 40, (1 << 63) - 30])
@pytest.mark.parametrize("options", [(), ("--records",)])
def test_offsets_that_no_index_can_name_stop_nothing(
    offset: int, options: tuple[str, ...], tmp_path: Path
) -> None:
    files = dict(sample(ORDERS))
    data = files[name(240)]
    start, end = positions(data)[4:6]
    for damage in (b"", b"\xff\xff"):
        directory = tmp_path / str(len(damage))
        damaged_batch = struct.pack(">q", offset) + data[start + 8 : end]
        damaged_batch = with_bytes(damaged_batch, 90, damage)
        files[name(240)] = data[:start] + damaged_batch + data[end:]
        for file, content in files.items():
            (directory / "orders-0").mkdir(parents=True, exist_ok=True)
            (directory / "orders-0" / file).write_bytes(content)
        result = kfmt("salvage", directory / "orders-0", directory / "out", *options)
        assert result.code == 1, result.err
        main = sorted((directory / "out").glob("*.log"))
        batches = batches_of(b"".join(path.read_bytes() for path in main))
        all_batches = every_batch()
        assert {*batches} >= {*all_batches[:16], *all_batches[17:]}


@pytest.mark.parametrize("seed", [11, 12])
def test_of_combined_damages_no_undamaged_batch_is_lost(seed: int, tmp_path: Path) -> None:
    originals = {
        partition.name: [
            batch
            for file, data in sorted(sample(partition).items())
            if file.endswith(".log")
            for batch in batches_of(data)
        ]
        for partition in set(combined_cases.PARTITIONS)
    }
    for i, case in enumerate(combined(seed, 30)):
        logs = (data for file, data in case.files.items() if file.endswith((".log", ".log.swap")))
        input_bytes = b"\0|\0".join(logs)
        _, main, conflicting = salvaged(case.files, tmp_path / str(i))
        batches = originals[case.description.partition(":")[0]]
        undamaged = [batch for batch in batches if batch in input_bytes]
        assert [data for data in undamaged if data not in main + conflicting] == [], (
            case.description
        )
