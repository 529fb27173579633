"""`kfmt merge`: one undamaged log of each partition out of damaged replicas."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_diff import built
from tests.commands.test_replicas import DAMAGED, unpacked
from tests.support.samples import kfmt
from tests.support.segments import positions, undecodable
from tools.kafka import SAMPLES

LOG = "00000000000000000000.log"
BATCHES = [(n, 0, "both") for n in range(0, 200, 10)]
ENDS = {"identical; log end offset: A 200, B 200\n"}


def broker(directory: Path, values: list[tuple[int, int, str]], *damaged: int) -> Path:
    """A log directory with a partition; a byte in each batch at the damaged indexes is flipped."""
    log = built(directory / "t-0", values) / f"{values[0][0]:020}.log"
    data = bytearray(log.read_bytes())
    for batch_index in damaged:
        data[positions(bytes(data))[batch_index] + 70] ^= 1
    log.write_bytes(data)
    (directory / "t-0.jsonl").unlink()
    return directory


def merge(*arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    result = kfmt("merge", *arguments, "--json")
    return result.code, result.of("merge"), result.err


def test_replicas_each_damaged_elsewhere(tmp_path: Path) -> None:
    """Every record that any of them has is in the result, in the bytes of a replica."""
    first = broker(tmp_path / "1", BATCHES, 2, 3, 9)
    second = broker(tmp_path / "2", BATCHES[:15], 5, 9)
    third = broker(tmp_path / "3", BATCHES[:12], 0)
    output = tmp_path / "to"
    code, (row,), _ = merge(first, second, third, "--to", output)
    assert code == 0
    assert (row["offsets"], row["missing"]) == ([[0, 199]], [])
    assert sum(len(source["offsets"]) for source in row["from"]) >= 3
    undamaged = broker(tmp_path / "whole", BATCHES)
    assert (output / "t-0" / LOG).read_bytes() == (undamaged / "t-0" / LOG).read_bytes()
    assert sum(source["bytes"] for source in row["from"]) == (output / "t-0" / LOG).stat().st_size
    assert (output / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert kfmt("check", output).code == 0


def test_what_no_replica_has_is_named(tmp_path: Path) -> None:
    first = broker(tmp_path / "1", BATCHES, 2, 3)
    second = broker(tmp_path / "2", BATCHES, 3)
    code, (row,), _ = merge(first, second, "--to", tmp_path / "to")
    assert code == 1
    assert row["missing"] == [[30, 39]]
    assert row["offsets"] == [[0, 29], [40, 199]]
    result = kfmt("merge", first, second, "--to", tmp_path / "too")
    assert "in no replica: 30–39" in result.out
    assert "10 offsets in no replica" in result.out + result.err


def test_a_file_that_cannot_be_opened_is_missing_from_its_replica_alone(tmp_path: Path) -> None:
    """The other replica is used; without one, the summary does not call the log complete."""
    first, second = broker(tmp_path / "1", BATCHES[:10], 3), broker(tmp_path / "2", BATCHES[:10])
    later_log = broker(tmp_path / "3", BATCHES[10:]) / "t-0" / f"{100:020}.log"
    (first / "t-0" / later_log.name).symlink_to(tmp_path / "nowhere")
    shutil.copy(later_log, second / "t-0")
    code, (row,), err = merge(first, second, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (3, [[0, 199]], [])
    assert f"{later_log.name}: No such file or directory" in err
    replicas = kfmt("replicas", first, second, "--json").of("replica")
    assert [replica["damaged_offsets"] for replica in replicas] == [[[30, 39], [100, 100]], []]
    # A broker ignores a link to nowhere.
    assert [replica["log_end_offset_after_start"] for replica in replicas] == [30, 200]

    (second / "t-0" / later_log.name).unlink()
    (second / "t-0" / later_log.name).symlink_to(tmp_path / "nowhere")
    result = kfmt("merge", first, second, "--to", tmp_path / "too")
    assert result.code == 3
    assert "2 inputs unread, which may have more records" in result.out + result.err
    assert "nothing is missing" not in result.out + result.err


def test_directories_that_a_broker_has_marked_are_no_replicas_and_are_named(tmp_path: Path) -> None:
    first = broker(tmp_path / "1", BATCHES[:10])
    moved = first / f"t-0.{'0' * 32}-future"
    shutil.copytree(broker(tmp_path / "2", BATCHES) / "t-0", moved)
    code, (row,), err = merge(first, "--to", tmp_path / "to")
    assert (code, row["offsets"]) == (0, [[0, 99]])
    assert f"not used: {moved}: marked -future" in err


def test_branches_are_not_mixed(tmp_path: Path) -> None:
    """Without --branch, a partition whose replicas have diverged is not written."""
    common = BATCHES[:10]
    old = broker(tmp_path / "1", [*common, *((n, 0, "old") for n in range(100, 160, 10))], 1)
    new = broker(tmp_path / "2", [*common, *((n, 2, "new") for n in range(100, 140, 10))], 4)
    output = tmp_path / "to"
    result = kfmt("merge", old, new, "--to", output)
    assert result.code == 1
    assert "diverged at offset 100; choose one with --branch BROKER" in result.out + result.err
    assert not output.exists()


def test_a_branch_takes_what_is_common_from_the_other(tmp_path: Path) -> None:
    directories = unpacked("c09-unclean", tmp_path / "c")
    log = directories[1] / "a-0" / LOG
    data = bytearray(log.read_bytes())
    data[positions(bytes(data))[1] + 70] ^= 1
    for directory in directories[1:3]:
        (directory / "a-0" / LOG).write_bytes(data)
    for branch, end in ((1, 90), (2, 90)):
        output = tmp_path / f"to{branch}"
        code, rows, _ = merge(
            *directories, "--to", output, "--branch", str(branch), "--topics", "a"
        )
        (row,) = rows
        assert (code, row["offsets"], row["missing"]) == (0, [[0, end - 1]], [])
        tails = [
            source["broker_id"] for source in row["from"] if source["offsets"][-1][1] == end - 1
        ]
        assert all((tail == 1) == (branch == 1) for tail in tails)
        epochs = (output / "a-0" / "leader-epoch-checkpoint").read_text()
        assert epochs == (directories[branch - 1] / "a-0/leader-epoch-checkpoint").read_text()


def test_an_epoch_below_that_of_the_batch_before_does_not_fit(tmp_path: Path) -> None:
    """The batches that show the divergence are damaged; the remaining ones are of two epochs."""
    common = BATCHES[:10]
    first = [*common, *((n, 0, "old") for n in range(100, 150, 10))]
    second = [*common, (100, 2, "new")]
    old, new = broker(tmp_path / "1", first, 10), broker(tmp_path / "2", second, 3, 4)
    code, (row,), _ = merge(old, new, "--to", tmp_path / "to")
    ranges = {tuple(range_) for source in row["from"] for range_ in source["offsets"]}
    assert (100, 109) not in ranges
    assert row["missing"] == [[100, 109]]
    assert code == 1


def test_a_damaged_epoch_does_not_keep_later_batches_out(tmp_path: Path) -> None:
    """No checksum covers the epoch of a batch."""
    first = broker(tmp_path / "1", BATCHES[:15])
    log = first / "t-0" / LOG
    data = bytearray(log.read_bytes())
    data[positions(bytes(data))[9] + 12] = 0x40
    log.write_bytes(data)
    second, later = broker(tmp_path / "2", BATCHES[:2]), broker(tmp_path / "rest", BATCHES[14:])
    shutil.copy(later / "t-0" / f"{140:020}.log", second / "t-0")
    code, (row,), _ = merge(first, second, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (0, [[0, 199]], [])


def test_the_longest_log_and_the_earliest_start(tmp_path: Path) -> None:
    first, second = broker(tmp_path / "1", BATCHES[:12]), broker(tmp_path / "2", BATCHES[8:])
    code, (row,), _ = merge(first, second, "--to", tmp_path / "to")
    assert (code, row["offsets"]) == (0, [[0, 199]])
    assert kfmt("check", tmp_path / "to").code == 0


def test_a_merged_directory_in_its_place_loses_nothing(tmp_path: Path) -> None:
    """Follow the advice of `replicas`."""
    directories = unpacked(DAMAGED, tmp_path / "c")
    diagnosis = kfmt("replicas", *directories, "--json")
    (step,) = diagnosis.of("next")
    output = tmp_path / "to"
    arguments = step["command"].replace("DST", str(output)).split()
    assert arguments[:2] == ["kfmt", "merge"]
    assert kfmt(*arguments[1:]).code == 0
    for partition in output.iterdir():
        shutil.rmtree(directories[0] / partition.name)
        shutil.copytree(partition, directories[0] / partition.name)
    second_diagnosis = kfmt("replicas", *directories, "--order", "1,2,3", "--json")
    assert [row["lost_offsets"] for row in second_diagnosis.of("start_order")] == [[], [], []]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--topics", "other"), 2, "no replica of other; known: t"),
        (("--branch", "x"), 2, "--branch"),
        (("--branch", "3"), 2, "--branch: no replica of broker 3; known: none"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    first = broker(tmp_path / "1", BATCHES)
    result = kfmt("merge", first, "--to", tmp_path / "to", *arguments)
    assert (result.code, message in result.err) == (code, True), result.err
    assert not (tmp_path / "to").exists()


def test_inputs_stay_and_outputs_are_new(tmp_path: Path) -> None:
    first = broker(tmp_path / "1", BATCHES, 3)
    original = (first / "t-0" / LOG).read_bytes()
    (tmp_path / "to").mkdir()
    assert kfmt("merge", first, "--to", tmp_path / "to").code == 2
    assert kfmt("merge", first, "--to", first / "t-0").code == 2
    assert (first / "t-0" / LOG).read_bytes() == original


def without_batch(directory: Path, batch_index: int) -> Path:
    """A copy of a directory whose log lacks a batch."""
    output = directory.with_name(f"{directory.name}-without-{batch_index}")
    shutil.copytree(directory, output)
    data = (output / "t-0" / LOG).read_bytes()
    batch_positions = positions(data)
    (output / "t-0" / LOG).write_bytes(
        data[: batch_positions[batch_index]] + data[batch_positions[batch_index + 1] :]
    )
    for index in (output / "t-0").glob("*index"):
        index.unlink()
    return output


@pytest.mark.parametrize("is_first", [True, False])
def test_a_batch_that_a_log_lacks_comes_from_the_others(tmp_path: Path, is_first: bool) -> None:
    complete = broker(tmp_path / "1", BATCHES)
    incomplete = without_batch(complete, 3)
    shorter = broker(tmp_path / "2", BATCHES[:15])
    replicas = (incomplete, shorter) if is_first else (shorter, incomplete)
    code, (row,), _ = merge(*replicas, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (0, [[0, 199]], [])
    assert (tmp_path / "to/t-0" / LOG).read_bytes() == (complete / "t-0" / LOG).read_bytes()


def test_offsets_that_every_log_lacks_are_named(tmp_path: Path) -> None:
    incomplete = without_batch(broker(tmp_path / "1", BATCHES), 3)
    code, (row,), _ = merge(incomplete, "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (1, [[0, 29], [40, 199]], [[30, 39]])


def test_what_the_cleaner_removed_stays_removed(tmp_path: Path) -> None:
    """A record that only the uncleaned replica has may be of a deleted key."""
    uncleaned = broker(tmp_path / "1", BATCHES[:15])
    cleaned = without_batch(broker(tmp_path / "2", BATCHES), 3)
    (cleaned / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    code, (row,), _ = merge(uncleaned, cleaned, "--to", tmp_path / "to")
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
    directories = tmp_path / "damaged", tmp_path / "whole"
    code, (row,), _ = merge(*directories, "--to", tmp_path / "to")
    assert (code, row["missing"]) == (0, [])
    assert (tmp_path / "to/codec-zstd-0" / log.name).read_bytes() == (
        directories[1] / "codec-zstd-0" / log.name
    ).read_bytes()
    code, (row,), _ = merge(directories[0], "--to", tmp_path / "alone")
    assert (code, row["missing"]) == (1, [[500, 599]])


@pytest.mark.parametrize("batch_index", [3, 7, 11])
def test_of_a_cleaned_log_only_offsets_of_an_undecodable_batch_are_missing(
    batch_index: int, tmp_path: Path
) -> None:
    """Here the last of a segment; not those of the batches that the cleaner removed."""
    (log,) = (SAMPLES / "kafka-3.9.1-broker1/codec-zstd-0").glob("*.log")
    data = undecodable(log.read_bytes(), batch_index)
    batches = [data[start:end] for start, end in pairwise(positions(data))]
    directory = tmp_path / "disk/t-0"
    directory.mkdir(parents=True)
    removed = {1, 3, 5, 7, 9} - {batch_index}
    for first in (0, 4, 8):  # each batch has 100 offsets
        kept = [batches[i] for i in range(first, first + 4) if i not in removed]
        (directory / f"{first * 100:020}.log").write_bytes(b"".join(kept))
    (directory.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 1200\n")
    code, (row,), _ = merge(directory.parent, "--to", tmp_path / "to")
    expected = [batch_index * 100, batch_index * 100 + 99]
    assert (code, row["missing"]) == (1, [expected])


def test_a_partition_without_an_undamaged_batch_is_named(tmp_path: Path) -> None:
    damaged = broker(tmp_path / "1", BATCHES, *range(20))
    result = kfmt("merge", damaged, "--to", tmp_path / "to")
    assert result.code == 1
    assert "not merged: t-0: no replica has a batch that is undamaged" in result.err
    assert "nothing was merged; 1 partition not merged" in result.out + result.err
    assert not (tmp_path / "to").exists()


def test_a_log_that_was_to_replace_others_is_read(tmp_path: Path) -> None:
    """A broker that starts replaces the other logs with it, which are deleted."""
    directory = tmp_path / "disk/orders-0"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", directory)
    (directory / f"{480:020}.log").rename(directory / f"{480:020}.log.swap")
    for index in directory.glob(f"{480:020}.*index"):
        index.unlink()
    code, (row,), _ = merge(tmp_path / "disk", "--to", tmp_path / "to")
    assert (code, row["offsets"], row["missing"]) == (0, [[0, 1499]], [])
    assert kfmt("check", tmp_path / "to").code == 0


def test_a_segment_that_every_replica_lacks_is_named(tmp_path: Path) -> None:
    for name in ("1", "2"):
        directory = tmp_path / name / "orders-0"
        shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", directory)
        for file in directory.glob(f"{480:020}.*"):
            file.unlink()
    code, (row,), _ = merge(tmp_path / "1", tmp_path / "2", "--to", tmp_path / "to")
    assert (code, row["missing"]) == (1, [[480, 719]])


def test_a_name_that_is_not_utf_8_stays_as_it_is(tmp_path: Path) -> None:
    name = os.fsdecode(b"t\xff-0")
    for broker_name in ("1", "2"):
        shutil.move(broker(tmp_path / broker_name, BATCHES) / "t-0", tmp_path / broker_name / name)
    code, (row,), _ = merge(tmp_path / "1", tmp_path / "2", "--to", tmp_path / "to")
    assert (code, row["file"]) == (0, "t\\xff-0")
    assert os.listdir(os.fsencode(tmp_path / "to")) == [b"t\xff-0"]  # noqa: PTH208
