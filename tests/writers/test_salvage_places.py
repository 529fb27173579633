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

ASIDE = "contradicting"


def batches_of(data: bytes) -> list[bytes]:
    """The batches of a log, as far as it can be walked."""
    found, at = [], 0
    while at + 12 <= len(data):
        end = at + 12 + struct.unpack_from(">i", data, at + 8)[0]
        if not at + 26 <= end <= len(data):
            break
        found.append(data[at:end])
        at = end
    return found


def salvaged(files: Files, folder: Path) -> tuple[Done, bytes, bytes]:
    """What salvage says of a partition, and the logs that it writes: in order, and aside."""
    source, out = folder / "in/orders-0", folder / "out"
    source.mkdir(parents=True)
    for file, data in files.items():
        (source / file).write_bytes(data)
    done = kfmt("salvage", source, out, "--json")
    logs = sorted(out.rglob("*.log"))
    main = [log for log in logs if ASIDE not in str(log.relative_to(out))]
    if main:
        assert kfmt("verify-crc", "--deep", *main).code == 0
        assert kfmt("index-check", *main).code == 0
    aside = [log for log in logs if log not in main]
    return (
        done,
        b"".join(path.read_bytes() for path in main),
        b"".join(item.read_bytes() for item in aside),
    )


def every_batch() -> list[bytes]:
    files = sample(ORDERS)
    return [
        data for file in sorted(files) if file.endswith(".log") for data in batches_of(files[file])
    ]


def moved(files: Files) -> Files:
    """A batch at the end of its log."""
    data = files[name(240)]
    at, end = positions(data)[3:5]
    return {**files, name(240): data[:at] + data[end:] + data[at:end]}


def exchanged(files: Files) -> Files:
    return {**files, name(240): files[name(480)], name(480): files[name(240)]}


def joined(files: Files) -> Files:
    """A log that has the next one's batches, of which one is damaged there."""
    data = files[name(480)]
    damaged = with_bytes(data, positions(data)[2] + 90, b"\xff")
    return {**files, name(240): files[name(240)] + data, name(480): damaged}


def swapped(files: Files) -> Files:
    """A log that a swap had finished, and whose place is empty."""
    rest = {file: data for file, data in files.items() if file != name(480)}
    return {**rest, f"{name(480)}.swap": files[name(480)]}


def short(files: Files) -> Files:
    """A log with a name that a broker takes, and no index of which there is another."""
    rest = {file: data for file, data in files.items() if file != name(720)}
    return {**rest, "720.log": files[name(720)]}


def renamed(files: Files) -> Files:
    rest = {file: data for file, data in files.items() if file != name(720)}
    return {**rest, name(719): files[name(720)]}


def far(files: Files) -> Files:
    """A last log with a name that its batches do not have."""
    rest = {file: data for file, data in files.items() if file != name(1440)}
    return {**rest, name(9999999999): files[name(1440)]}


def emptied(files: Files) -> Files:
    """An empty last segment, below offsets that a log before it has."""
    return {**files, name(1200): files[name(1200)] + files[name(1440)], name(1440): b""}


@pytest.mark.parametrize(
    "change",
    [moved, exchanged, joined, swapped, short, renamed, far, emptied],
    ids=lambda item: item.__name__,
)
def test_every_batch_finds_its_place(change: Callable[[Files], Files], tmp_path: Path) -> None:
    done, main, aside = salvaged(change(sample(ORDERS)), tmp_path)
    assert batches_of(main) == every_batch()
    assert not aside
    assert not done.of("missing")
    start = kfmt("check", tmp_path / "out", "--json").of("broker_start")[0]
    assert start["log_end_offset"] == 1500


def test_offsets_that_another_log_has_are_not_lost(tmp_path: Path) -> None:
    """A copy of a log, under a name that cuts its first batch."""
    files = sample(ORDERS)
    done, main, _ = salvaged({**files, name(485): files[name(480)]}, tmp_path)
    assert batches_of(main) == every_batch()
    holes = done.of("hole")
    assert holes
    assert {(hole["first_offset"], hole["last_offset"]) for hole in holes} == {(None, None)}
    assert not done.of("missing")


def test_of_two_batches_that_contradict_each_other_one_is_set_aside(tmp_path: Path) -> None:
    files = dict(sample(ORDERS))
    data = files[name(240)]
    places = positions(data)
    wrong = struct.pack(">q", 240 + 20 * 7) + data[places[4] + 8 : places[5]]
    files[name(240)] = data[: places[4]] + wrong + data[places[5] :]
    done, main, aside = salvaged(files, tmp_path)
    whole = every_batch()
    assert batches_of(main) == [*whole[:16], *whole[17:]]
    assert batches_of(aside) == [wrong]
    (row,) = done.of("rearranged")
    assert (row["aside_batches"], row["copies"]) == (1, 0)
    (missing,) = done.of("missing")
    assert (missing["offsets"], missing["ranges"]) == (20, [[320, 339]])


def test_a_wrong_offset_takes_no_batch_behind_other_damage_along(tmp_path: Path) -> None:
    """One bit of an offset, and damage right after it."""
    whole = every_batch()
    for bit in range(0, 40, 3):
        files = dict(sample(ORDERS))
        data = files[name(240)]
        places = positions(data)
        offset = struct.unpack_from(">q", data, places[3])[0] ^ 1 << bit
        data = with_bytes(data, places[3], struct.pack(">q", offset))
        files[name(240)] = with_bytes(data, places[4] + 80, b"\xff\xff\xff")
        _, main, aside = salvaged(files, tmp_path / str(bit))
        found = set(batches_of(main)) | set(batches_of(aside))
        assert found >= {*whole[:15], *whole[17:]}, bit
        assert {*batches_of(main)} >= {*whole[:15], *whole[17:]}, bit


def test_the_summary_says_what_is_missing(tmp_path: Path) -> None:
    files = {text: data for text, data in sample(ORDERS).items() if text != name(240)}
    done, _, _ = salvaged(files, tmp_path)
    (missing,) = done.of("missing")
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
    at, end = positions(data)[4:6]
    for damage in (b"", b"\xff\xff"):
        folder = tmp_path / str(len(damage))
        wrong = struct.pack(">q", offset) + data[at + 8 : end]
        wrong = with_bytes(wrong, 90, damage)
        files[name(240)] = data[:at] + wrong + data[end:]
        for file, content in files.items():
            (folder / "orders-0").mkdir(parents=True, exist_ok=True)
            (folder / "orders-0" / file).write_bytes(content)
        done = kfmt("salvage", folder / "orders-0", folder / "out", *options)
        assert done.code == 1, done.err
        main = sorted((folder / "out").glob("*.log"))
        batches = batches_of(b"".join(path.read_bytes() for path in main))
        whole = every_batch()
        assert {*batches} >= {*whole[:16], *whole[17:]}


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
        given = b"\0|\0".join(logs)
        _, main, aside = salvaged(case.files, tmp_path / str(i))
        batches = originals[case.what.partition(":")[0]]
        undamaged = [batch for batch in batches if batch in given]
        assert [data for data in undamaged if data not in main + aside] == [], case.what
