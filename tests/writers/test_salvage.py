"""`kfmt salvage`: what is undamaged is copied, byte for byte; the holes are listed."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.log import reader as log_reader
from kfmt_cli.writers.salvage.holes import NO_NEXT_OFFSET, LogHole, increasing_offsets_mask
from kfmt_cli.writers.salvage.salvager import Salvager
from tests.support.samples import ORDERS, TXN, Done, Row, environment, kfmt, sample_name
from tests.support.segments import DAMAGES, positions, with_bytes, write
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
WRAPPERS = SAMPLES / "kafka-2.8.2/v1-gzip-0/00000000000000000000.log"


def salvaged(source: Path, destination: Path) -> Done:
    result = kfmt("salvage", source, destination, "--json")
    assert result.code in (0, 1), result.err
    return result


def batches_of(data: bytes) -> list[bytes]:
    starts = positions(data)
    return [data[a:b] for a, b in pairwise(starts)]


def file_contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("directory", sorted(SAMPLES.glob("kafka-*")), ids=sample_name)
def test_nothing_of_healthy_logs_is_omitted(directory: Path, tmp_path: Path) -> None:
    original = file_contents(directory)
    result = salvaged(directory, tmp_path / "out")
    assert result.code == 0
    assert result.of("hole") == []
    assert file_contents(directory) == original
    logs = [path for path in directory.rglob("*.log") if len(path.name) == 24]
    for log in logs:
        copy = tmp_path / "out" / log.relative_to(directory)
        assert copy.read_bytes() == log.read_bytes()
        assert copy.stat().st_mtime == log.stat().st_mtime
    assert kfmt("verify-crc", "--deep", tmp_path / "out").code == 0
    checked = kfmt("index-check", tmp_path / "out", "--json")
    assert checked.code == 0, checked.codes


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("batch", [0, 3, 11])
def test_only_what_is_damaged_is_omitted(name: str, batch: int, tmp_path: Path) -> None:
    if name == "an offset from before" and batch == 0:
        batch = 1
    if name == "a length that ends inside the next batch" and batch == 11:
        batch = 10
    damage, code, _ = DAMAGES[name]
    data = ORDERS.read_bytes()
    batches = batches_of(data)
    start, end = positions(data)[batch : batch + 2]
    file = write(tmp_path / "in-0", damage(data, start, end))
    result = salvaged(file.parent, tmp_path / "out")
    assert result.code == 1
    is_between = "put in" in name
    expected = batches if is_between else [*batches[:batch], *batches[batch + 1 :]]
    assert (tmp_path / "out" / file.name).read_bytes() == b"".join(expected)
    (hole,) = result.of("hole")
    assert hole["position"] == start
    assert code in hole["codes"]
    assert hole["size"] == file.stat().st_size - sum(map(len, expected))
    if is_between:
        assert (hole["first_offset"], hole["last_offset"]) == (None, None)
    else:
        last = None if batch == 11 else batch * 20 + 19
        assert (hole["first_offset"], hole["last_offset"]) == (batch * 20, last)
    assert kfmt("verify-crc", "--deep", tmp_path / "out").code == 0
    assert kfmt("index-check", tmp_path / "out").code == 0


@pytest.mark.parametrize("batch", [0, 1, 5, 10])
def test_a_base_offset_that_is_too_high_takes_no_other_batch_along(
    batch: int, tmp_path: Path
) -> None:
    data = ORDERS.read_bytes()
    batches = batches_of(data)
    start = positions(data)[batch]
    file = write(tmp_path / "in-0", with_bytes(data, start + 5, b"\x01"))
    result = salvaged(file, tmp_path / "out")
    expected = [*batches[:batch], *batches[batch + 1 :]]
    assert (tmp_path / "out" / file.name).read_bytes() == b"".join(expected)
    (hole,) = result.of("hole")
    assert (hole["first_offset"], hole["last_offset"]) == (batch * 20, batch * 20 + 19)
    assert hole["codes"] == ["offsets-backwards"]


def test_a_run_of_batches_that_stands_twice_is_kept_once(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    starts = positions(data)
    duplicated = data[: starts[8]] + data[starts[4] :]
    file = write(tmp_path / "in-0", duplicated)
    result = salvaged(file, tmp_path / "out")
    assert (tmp_path / "out" / file.name).read_bytes() == data
    (hole,) = result.of("hole")
    assert (hole["first_offset"], hole["last_offset"], hole["batches"]) == (None, None, 4)


@pytest.mark.parametrize(
    ("base_offsets", "last_offsets", "previous_offset", "next_offsets", "expected"),
    [
        ([0, 5], [4, 9], -1, [], [1, 1]),
        ([0, 900, 5, 10], [4, 904, 9, 14], -1, [], [1, 0, 1, 1]),
        ([0, 900], [4, 904], -1, [5, 10], [1, 0]),
        ([0, 900], [4, 904], -1, [905, 910], [1, 1]),
        ([0, 10, 7, 15, 20], [4, 14, 8, 19, 24], -1, [], [1, 1, 0, 1, 1]),
        ([0, 5, 0, 5, 10], [4, 9, 4, 9, 14], -1, [], [1, 1, 0, 0, 1]),
        ([3], [4], 4, [], [0]),
        (
            [0, 90, 91, 92, *range(1, 9)],
            [0, 90, 91, 92, *range(1, 9)],
            -1,
            [9],
            [1, 0, 0, 0, *[1] * 8],
        ),
        ([], [], 4, [], []),
    ],
)
def test_the_batch_that_its_neighbours_contradict_is_omitted(
    base_offsets: list[int],
    last_offsets: list[int],
    previous_offset: int,
    next_offsets: list[int],
    expected: list[int],
) -> None:
    mask = increasing_offsets_mask(
        np.array(base_offsets, int), np.array(last_offsets, int), previous_offset, next_offsets
    )
    assert mask.astype(int).tolist() == expected


def test_batches_that_stand_too_early_take_no_others_along(tmp_path: Path) -> None:
    batches = batches_of(TXN.read_bytes())
    reordered = [*batches[:20], *batches[80:92], *batches[20:80], *batches[92:]]
    file = write(tmp_path / "in-0", b"".join(reordered))
    salvaged(file, tmp_path / "out")
    assert (tmp_path / "out" / file.name).read_bytes() == b"".join(batches)


def test_the_offsets_of_a_damaged_wrapper_are_reported(tmp_path: Path) -> None:
    data = WRAPPERS.read_bytes()
    starts = positions(data)
    records = kfmt("dump", WRAPPERS, "--records", "--json").of("record")
    offsets = [record["offset"] for record in records if record["batch_position"] == starts[1]]
    file = write(tmp_path / "in-0", with_bytes(data, starts[1] + 60, b"\xff\xff"))
    (hole,) = salvaged(file, tmp_path / "out").of("hole")
    assert (hole["first_offset"], hole["last_offset"]) == (offsets[0], offsets[-1])
    expected = data[: starts[1]] + data[starts[2] :]
    assert (tmp_path / "out" / file.name).read_bytes() == expected


def damaged_partition(directory: Path) -> list[int]:
    """orders-0 with damage in each segment; the offsets of records that remain readable."""
    shutil.copytree(BROKER / "orders-0", directory)
    logs = sorted(directory.glob("*.log"))
    rng = random.Random(7)
    lost_offsets: set[int] = set()
    records = kfmt("dump", directory, "--records", "--json").of("record")
    for i, log in enumerate(logs):
        data = log.read_bytes()
        starts = positions(data)
        if i == 1:
            damaged_starts = starts[:-1]
            data = bytes(rng.randrange(256) for _ in range(len(data)))
        else:
            inner = starts[1:-2]
            damaged_starts = rng.sample(inner, min(2, len(inner)))
            for start in damaged_starts:
                data = with_bytes(data, start + 80, bytes([data[start + 80] ^ 4]))
        log.write_bytes(data)
        lost_offsets |= {
            record["offset"]
            for record in records
            if record["batch_position"] in damaged_starts and Path(record["file"]).name == log.name
        }
    return [record["offset"] for record in records if record["offset"] not in lost_offsets]


def test_of_a_partition_all_logs_are_salvaged(tmp_path: Path) -> None:
    readable_offsets = damaged_partition(tmp_path / "orders-0")
    logs = sorted((tmp_path / "orders-0").glob("*.log"))
    (tmp_path / "orders-0" / f"{0:020}.index").write_bytes(b"nonsense")
    result = salvaged(tmp_path / "orders-0", tmp_path / "out")
    records = kfmt("dump", tmp_path / "out", "--records", "--json").of("record")
    assert [record["offset"] for record in records] == readable_offsets
    # A log without any undamaged batch is not written.
    assert sorted(path.name for path in (tmp_path / "out").glob("*.log")) == [
        log.name for log in logs if log != logs[1]
    ]
    second_holes = [row for row in result.of("hole") if row["file"] == str(logs[1])]
    assert [row["last_offset"] for row in second_holes] == [int(logs[2].stem) - 1]
    assert (tmp_path / "out" / "partition.metadata").exists()
    assert kfmt("index-check", tmp_path / "out").code == 0
    (summary,) = result.of("summary")
    assert summary["holes"] == len(result.of("hole"))
    assert summary["batches_after"] == sum(row["batches_after"] for row in result.of("file"))


def test_the_last_log_stays_even_if_it_is_empty(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "in-0")
    last = max((tmp_path / "in-0").glob("*.log"))
    last.write_bytes(b"")
    assert salvaged(tmp_path / "in-0", tmp_path / "out").of("hole") == []
    assert (tmp_path / "out" / last.name).read_bytes() == b""


def test_what_the_next_segment_has_is_kept_there(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "in-0")
    first, second = sorted((tmp_path / "in-0").glob("*.log"))[:2]
    original = first.read_bytes()
    first.write_bytes(original + second.read_bytes()[: positions(second.read_bytes())[2]])
    result = salvaged(tmp_path / "in-0", tmp_path / "out")
    (hole,) = result.of("hole")
    assert hole["codes"] == ["segments-overlap"]
    assert (hole["position"], hole["first_offset"]) == (len(original), None)
    assert (tmp_path / "out" / first.name).read_bytes() == original


def test_damaged_files_next_to_the_logs_are_not_copied(tmp_path: Path) -> None:
    shutil.copytree(BROKER, tmp_path / "in")
    partition = tmp_path / "in/orders-0"
    (partition / "leader-epoch-checkpoint").write_text("0\n9\nnonsense\n")
    (partition / f"{99:020}.log.swap").write_bytes(b"")
    shutil.copytree(partition, tmp_path / "in" / f"orders-0.{'a' * 32}-delete")
    result = salvaged(tmp_path / "in", tmp_path / "out")
    out = tmp_path / "out"
    assert not (out / "orders-0/leader-epoch-checkpoint").exists()
    assert "orders-0/leader-epoch-checkpoint: damaged" in result.err
    assert ".log.swap" in result.err
    assert "marked by a broker as deleted; use --deleted to bring it back" in result.err
    assert (out / "meta.properties").read_bytes() == (BROKER / "meta.properties").read_bytes()
    assert not (out / "recovery-point-offset-checkpoint").exists()
    assert not list(out.glob("*-delete"))


def test_where_nothing_is_undamaged_nothing_is_written(tmp_path: Path) -> None:
    file = write(tmp_path / "in-0", bytes(5000))
    result = kfmt("salvage", file, tmp_path / "out")
    assert result.code == 1
    assert "not written" in result.err
    assert not (tmp_path / "out").exists()


def test_an_empty_log_stays_empty(tmp_path: Path) -> None:
    file = write(tmp_path / "in-0", b"")
    assert kfmt("salvage", file, tmp_path / "out").code == 0
    assert (tmp_path / "out" / file.name).read_bytes() == b""


@pytest.mark.parametrize("command", ["salvage", "convert-v0-to-v2"])
def test_it_is_written_even_if_nobody_reads_what_is_printed(command: str, tmp_path: Path) -> None:
    source = SAMPLES / "kafka-2.8.2"
    paths = (str(source), str(tmp_path / "out"))
    arguments = [sys.executable, "-m", "kfmt_cli", command, *paths, "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 0
    assert kfmt("verify-crc", tmp_path / "out").code == 0


def test_invalid_paths_are_reported(tmp_path: Path) -> None:
    assert kfmt("salvage", tmp_path / "nowhere", tmp_path / "out").code == 3
    assert kfmt("salvage", ORDERS, tmp_path).code == 2
    log = shutil.copy(ORDERS, tmp_path / "copy.log")
    result = kfmt("salvage", log, tmp_path / "out")
    assert result.code == 3
    assert "20-digit base offset" in result.err


def many_batches(directory: Path) -> Path:
    """A log of more than 4 MiB in which every ninth batch is damaged."""
    lines = b"".join(b'{"value":"%d %s"}\n' % (i, b"x" * 400) for i in range(12_000))
    options = ("--batch-records", "7", "--compression", "none")
    assert kfmt("build", "-", directory, *options, stdin=lines).code == 0
    (log,) = directory.glob("*.log")
    data = bytearray(log.read_bytes())
    for start in positions(bytes(data))[:-1:9]:
        data[start + 90] ^= 1
    log.write_bytes(data)
    return log


def test_it_is_the_same_whatever_a_block_holds_and_on_any_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = many_batches(tmp_path / "in-0")
    batches = batches_of(log.read_bytes())
    undamaged = b"".join(data for i, data in enumerate(batches) if i % 9)

    def run(jobs: int) -> tuple[bytes, list[Row], int]:
        out = bytearray()
        holes: list[LogHole] = []
        file = classify_file(str(log), log.name)
        result = Salvager(DecompressionLimit(), jobs).salvage_log(
            file, NO_NEXT_OFFSET, out.extend, holes.append
        )
        rows = [{name: getattr(hole, name) for name in LogHole.__slots__} for hole in holes]
        return bytes(out), rows, result.batches_after

    expected = run(0)
    assert expected[0] == undamaged
    assert len(expected[1]) == -(-len(batches) // 9)
    assert all(row["last_offset"] - row["first_offset"] == 6 for row in expected[1][:-1])
    assert run(3) == expected
    monkeypatch.setattr(log_reader, "FIRST_BLOCK_BYTES", 5_000)
    monkeypatch.setattr(log_reader, "MAX_BLOCK_BYTES", 10_000)
    assert run(2) == expected
