"""`kfmt merge`: one undamaged log of each partition out of damaged replicas."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_diff import built
from tests.commands.test_replicas import DAMAGED, unpacked
from tests.support.samples import kfmt
from tests.support.segments import positions, undecodable
from tools.kafka import SAMPLES

LOG = "00000000000000000000.log"
WHOLE = [(n, 0, "both") for n in range(0, 200, 10)]
ENDS = {"identical; log end offset: A 200, B 200\n"}


def broker(folder: Path, values: list[tuple[int, int, str]], *damaged: int) -> Path:
    """A directory with a partition; a byte of these batches, by number, is flipped."""
    log = built(folder / "t-0", values) / f"{values[0][0]:020}.log"
    data = bytearray(log.read_bytes())
    for number in damaged:
        data[positions(bytes(data))[number] + 70] ^= 1
    log.write_bytes(data)
    (folder / "t-0.jsonl").unlink()
    return folder


def merged(*words: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    done = kfmt("merge", *words, "--json")
    return done.code, done.of("merge"), done.err


def test_replicas_each_damaged_elsewhere(tmp_path: Path) -> None:
    """Every record that any of them has is in the result, in the bytes of a replica."""
    one = broker(tmp_path / "1", WHOLE, 2, 3, 9)
    two = broker(tmp_path / "2", WHOLE[:15], 5, 9)
    three = broker(tmp_path / "3", WHOLE[:12], 0)
    to = tmp_path / "to"
    code, (row,), _ = merged(one, two, three, "--to", to)
    assert code == 0
    assert (row["offsets"], row["missing"]) == ([[0, 199]], [])
    assert sum(len(part["offsets"]) for part in row["from"]) >= 3
    healthy = broker(tmp_path / "whole", WHOLE)
    assert (to / "t-0" / LOG).read_bytes() == (healthy / "t-0" / LOG).read_bytes()
    assert sum(part["bytes"] for part in row["from"]) == (to / "t-0" / LOG).stat().st_size
    assert (to / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert kfmt("check", to).code == 0


def test_what_no_replica_has_is_named(tmp_path: Path) -> None:
    one = broker(tmp_path / "1", WHOLE, 2, 3)
    two = broker(tmp_path / "2", WHOLE, 3)
    code, (row,), _ = merged(one, two, "--to", tmp_path / "to")
    assert code == 1
    assert row["missing"] == [[30, 39]]
    assert row["offsets"] == [[0, 29], [40, 199]]
    said = kfmt("merge", one, two, "--to", tmp_path / "too")
    assert "in no replica: 30–39" in said.out
    assert "10 offsets in no replica" in said.out + said.err


def test_a_file_that_cannot_be_opened_is_missing_from_its_replica_alone(tmp_path: Path) -> None:
    """The other replica is taken; without one, the last line does not call the log whole."""
    one, two = broker(tmp_path / "1", WHOLE[:10], 3), broker(tmp_path / "2", WHOLE[:10])
    rest = broker(tmp_path / "3", WHOLE[10:]) / "t-0" / f"{100:020}.log"
    (one / "t-0" / rest.name).symlink_to(tmp_path / "nowhere")
    shutil.copy(rest, two / "t-0")
    code, (row,), err = merged(one, two, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (3, [[0, 199]], [])
    assert f"{rest.name}: No such file or directory" in err
    replicas = kfmt("replicas", one, two, "--json").of("replica")
    assert [each["damaged_offsets"] for each in replicas] == [[[30, 39], [100, 100]], []]
    assert [each["log_end_offset_after_start"] for each in replicas] == [None, 200]

    (two / "t-0" / rest.name).unlink()
    (two / "t-0" / rest.name).symlink_to(tmp_path / "nowhere")
    done = kfmt("merge", one, two, "--to", tmp_path / "too")
    assert done.code == 3
    assert "2 inputs unread, which may have more records" in done.out + done.err
    assert "nothing is missing" not in done.out + done.err


def test_directories_that_a_broker_has_marked_are_no_replicas_and_are_named(tmp_path: Path) -> None:
    one = broker(tmp_path / "1", WHOLE[:10])
    moved = one / f"t-0.{'0' * 32}-future"
    shutil.copytree(broker(tmp_path / "2", WHOLE) / "t-0", moved)
    code, (row,), err = merged(one, "--to", tmp_path / "to")
    assert (code, row["offsets"]) == (0, [[0, 99]])
    assert f"not used: {moved}: marked -future" in err


def test_branches_are_not_mixed(tmp_path: Path) -> None:
    """Without --branch, nothing is written of a partition whose replicas have diverged."""
    both = WHOLE[:10]
    old = broker(tmp_path / "1", [*both, *((n, 0, "old") for n in range(100, 160, 10))], 1)
    new = broker(tmp_path / "2", [*both, *((n, 2, "new") for n in range(100, 140, 10))], 4)
    to = tmp_path / "to"
    done = kfmt("merge", old, new, "--to", to)
    assert done.code == 1
    assert "diverged at offset 100; choose one with --branch BROKER" in done.out + done.err
    assert not to.exists()


def test_a_branch_takes_what_is_common_from_the_other(tmp_path: Path) -> None:
    directories = unpacked("c09-unclean", tmp_path / "c")
    log = directories[1] / "a-0" / LOG
    data = bytearray(log.read_bytes())
    data[positions(bytes(data))[1] + 70] ^= 1
    for directory in directories[1:3]:
        (directory / "a-0" / LOG).write_bytes(data)
    for branch, end in ((1, 90), (2, 90)):
        to = tmp_path / f"to{branch}"
        code, rows, _ = merged(*directories, "--to", to, "--branch", str(branch), "--topics", "a")
        (row,) = rows
        assert (code, row["offsets"], row["missing"]) == (0, [[0, end - 1]], [])
        tails = [part["broker_id"] for part in row["from"] if part["offsets"][-1][1] == end - 1]
        assert all((tail == 1) == (branch == 1) for tail in tails)
        epochs = (to / "a-0" / "leader-epoch-checkpoint").read_text()
        assert epochs == (directories[branch - 1] / "a-0/leader-epoch-checkpoint").read_text()


def test_an_epoch_below_that_of_the_batch_before_does_not_fit(tmp_path: Path) -> None:
    """The batches that would show that replicas diverged are damaged; the rest is of two epochs."""
    both = WHOLE[:10]
    one = [*both, *((n, 0, "old") for n in range(100, 150, 10))]
    two = [*both, (100, 2, "new")]
    old, new = broker(tmp_path / "1", one, 10), broker(tmp_path / "2", two, 3, 4)
    code, (row,), _ = merged(old, new, "--to", tmp_path / "to")
    ends = {tuple(range_) for part in row["from"] for range_ in part["offsets"]}
    assert (100, 109) not in ends
    assert row["missing"] == [[100, 109]]
    assert code == 1


def test_a_damaged_epoch_does_not_keep_later_batches_out(tmp_path: Path) -> None:
    """No checksum covers the epoch of a batch."""
    one = broker(tmp_path / "1", WHOLE[:15])
    log = one / "t-0" / LOG
    data = bytearray(log.read_bytes())
    data[positions(bytes(data))[9] + 12] = 0x40
    log.write_bytes(data)
    two, rest = broker(tmp_path / "2", WHOLE[:2]), broker(tmp_path / "rest", WHOLE[14:])
    shutil.copy(rest / "t-0" / f"{140:020}.log", two / "t-0")
    code, (row,), _ = merged(one, two, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (0, [[0, 199]], [])


def test_the_longest_log_and_the_earliest_start(tmp_path: Path) -> None:
    one, two = broker(tmp_path / "1", WHOLE[:12]), broker(tmp_path / "2", WHOLE[8:])
    code, (row,), _ = merged(one, two, "--to", tmp_path / "to")
    assert (code, row["offsets"]) == (0, [[0, 199]])
    assert kfmt("check", tmp_path / "to").code == 0


def test_a_merged_directory_in_its_place_loses_nothing(tmp_path: Path) -> None:
    """The advice of `replicas`, followed."""
    directories = unpacked(DAMAGED, tmp_path / "c")
    before = kfmt("replicas", *directories, "--json")
    (step,) = before.of("next")
    to = tmp_path / "to"
    words = step["command"].replace("DST", str(to)).split()
    assert words[:2] == ["kfmt", "merge"]
    assert kfmt(*words[1:]).code == 0
    for partition in to.iterdir():
        shutil.rmtree(directories[0] / partition.name)
        shutil.copytree(partition, directories[0] / partition.name)
    after = kfmt("replicas", *directories, "--order", "1,2,3", "--json")
    assert [row["lost_offsets"] for row in after.of("start_order")] == [[], [], []]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--topics", "other"), 2, "no replica of other; known: t"),
        (("--branch", "x"), 2, "--branch"),
        (("--branch", "3"), 2, "--branch: no replica of broker 3; known: none"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    one = broker(tmp_path / "1", WHOLE)
    done = kfmt("merge", one, "--to", tmp_path / "to", *words)
    assert (done.code, said in done.err) == (code, True), done.err
    assert not (tmp_path / "to").exists()


def test_inputs_stay_and_outputs_are_new(tmp_path: Path) -> None:
    one = broker(tmp_path / "1", WHOLE, 3)
    before = (one / "t-0" / LOG).read_bytes()
    (tmp_path / "to").mkdir()
    assert kfmt("merge", one, "--to", tmp_path / "to").code == 2
    assert kfmt("merge", one, "--to", one / "t-0").code == 2
    assert (one / "t-0" / LOG).read_bytes() == before


def without_batch(folder: Path, number: int) -> Path:
    """A copy of a directory whose log lacks a batch."""
    to = folder.with_name(f"{folder.name}-without-{number}")
    shutil.copytree(folder, to)
    data = (to / "t-0" / LOG).read_bytes()
    at = positions(data)
    (to / "t-0" / LOG).write_bytes(data[: at[number]] + data[at[number + 1] :])
    for index in (to / "t-0").glob("*index"):
        index.unlink()
    return to


@pytest.mark.parametrize("is_first", [True, False])
def test_a_batch_that_a_log_lacks_comes_from_the_others(tmp_path: Path, is_first: bool) -> None:
    whole = broker(tmp_path / "1", WHOLE)
    less = without_batch(whole, 3)
    shorter = broker(tmp_path / "2", WHOLE[:15])
    both = (less, shorter) if is_first else (shorter, less)
    code, (row,), _ = merged(*both, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (0, [[0, 199]], [])
    assert (tmp_path / "to/t-0" / LOG).read_bytes() == (whole / "t-0" / LOG).read_bytes()


def test_offsets_that_every_log_lacks_are_named(tmp_path: Path) -> None:
    less = without_batch(broker(tmp_path / "1", WHOLE), 3)
    code, (row,), _ = merged(less, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (1, [[0, 29], [40, 199]], [[30, 39]])


def test_what_the_cleaner_removed_stays_removed(tmp_path: Path) -> None:
    """A record that only the replica has which is not cleaned may be of a deleted key."""
    whole = broker(tmp_path / "1", WHOLE[:15])
    cleaned = without_batch(broker(tmp_path / "2", WHOLE), 3)
    (cleaned / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    code, (row,), _ = merged(whole, cleaned, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (0, [[0, 199]], [])
    assert (tmp_path / "to/t-0" / LOG).read_bytes() == (cleaned / "t-0" / LOG).read_bytes()


@pytest.mark.parametrize("is_compacted", [True, False])
def test_a_batch_that_cannot_be_decompressed_comes_from_the_others(
    tmp_path: Path, is_compacted: bool
) -> None:
    sample = SAMPLES / "kafka-3.9.1-broker1/codec-zstd-0"
    for name in ("whole", "damaged"):
        shutil.copytree(sample, tmp_path / name / "codec-zstd-0")
        if is_compacted:
            (tmp_path / name / "cleaner-offset-checkpoint").write_text("0\n1\ncodec-zstd 0 9\n")
    log = next(iter((tmp_path / "damaged/codec-zstd-0").glob("*.log")))
    log.write_bytes(undecodable(log.read_bytes(), 5))
    folders = tmp_path / "damaged", tmp_path / "whole"
    code, (row,), _ = merged(*folders, "--to", tmp_path / "to")
    assert (code, row["missing"]) == (0, [])
    assert (tmp_path / "to/codec-zstd-0" / log.name).read_bytes() == (
        folders[1] / "codec-zstd-0" / log.name
    ).read_bytes()
    code, (row,), _ = merged(folders[0], "--to", tmp_path / "alone")
    assert (code, row["missing"]) == (1, [[500, 599]])


def test_a_partition_without_an_undamaged_batch_is_named(tmp_path: Path) -> None:
    every = broker(tmp_path / "1", WHOLE, *range(20))
    done = kfmt("merge", every, "--to", tmp_path / "to")
    assert done.code == 1
    assert "not merged: t-0: no replica has a batch that is undamaged" in done.err
    assert "nothing was merged; 1 partition not merged" in done.out + done.err
    assert not (tmp_path / "to").exists()


def test_a_log_that_was_to_replace_others_is_read(tmp_path: Path) -> None:
    """Its start would put it in their place, which are deleted."""
    folder = tmp_path / "disk/orders-0"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", folder)
    (folder / f"{480:020}.log").rename(folder / f"{480:020}.log.swap")
    for index in folder.glob(f"{480:020}.*index"):
        index.unlink()
    code, (row,), _ = merged(tmp_path / "disk", "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (0, [[0, 1499]], [])
    assert kfmt("check", tmp_path / "to").code == 0


def test_a_segment_that_every_replica_lacks_is_named(tmp_path: Path) -> None:
    for name in ("1", "2"):
        folder = tmp_path / name / "orders-0"
        shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", folder)
        for file in folder.glob(f"{480:020}.*"):
            file.unlink()
    code, (row,), _ = merged(tmp_path / "1", tmp_path / "2", "--to", tmp_path / "to")
    assert (code, row["missing"]) == (1, [[480, 719]])


def test_a_name_that_is_not_utf_8_stays_as_it_is(tmp_path: Path) -> None:
    name = os.fsdecode(b"t\xff-0")
    for broker_name in ("1", "2"):
        shutil.move(broker(tmp_path / broker_name, WHOLE) / "t-0", tmp_path / broker_name / name)
    code, (row,), _ = merged(tmp_path / "1", tmp_path / "2", "--to", tmp_path / "to")
    assert (code, row["file"]) == (0, "t\\xff-0")
    assert os.listdir(os.fsencode(tmp_path / "to")) == [b"t\xff-0"]  # noqa: PTH208
