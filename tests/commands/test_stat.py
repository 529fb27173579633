"""stat: its counts are those of the rows of dump."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.codecs.decompress import decompress
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import positions, with_bytes
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
PARTITIONS = sorted(
    path for path in [*BROKER.iterdir(), *(SAMPLES / "kafka-2.8.2").iterdir()] if path.is_dir()
)


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda item: item.name)
def test_the_numbers_are_those_of_dump(partition: Path) -> None:
    rows = kfmt("stat", partition, "--deep", "--json").of("stat")
    dumped = kfmt("dump", partition, "--records", "--json")
    batches = [row for row in dumped.of("batch") if row["file"].endswith(".log")]
    records = [row for row in dumped.of("record") if row["file"].endswith(".log")]
    if not rows:
        assert not batches
        return
    (row,) = rows
    assert row["batches"] == len(batches)
    assert row["records"] == len(records)
    data = [row for row in records if "control" not in row]
    if batches:
        assert row["null_keys"] == sum(row["key"] is None for row in data)
        assert row["empty_keys"] == sum(row["key_size"] == 0 for row in data)
        assert row["tombstones"] == sum(row["value"] is None for row in data)
        assert row["last_offset"] == max(batch["last_offset"] for batch in batches)
    codecs: dict[str, int] = {}
    for batch in batches:
        name = batch["attributes"]["compression"]
        codecs[name] = codecs.get(name, 0) + 1
    assert row["codecs"] == codecs
    assert sum(n for _, n in row["records_histogram"]) == len(batches)
    assert sum(n for _, n in row["bytes_histogram"]) == len(batches)
    ids = {batch.get("producer_id") for batch in batches} - {None, -1}
    assert row["producers"] == len(ids)
    assert row["bytes"] == sum(path.stat().st_size for path in partition.glob("*[0-9].log"))


def test_rows() -> None:
    by_segment = kfmt("stat", BROKER / "orders-0", "--by", "segment", "--json").of("stat")
    assert len(by_segment) == 7
    assert sum(row["records"] for row in by_segment) == 1500
    topics = {row["topic"] for row in kfmt("stat", BROKER, "--by", "topic", "--json").of("stat")}
    assert {"orders", "txn", "empty"} <= topics
    (row,) = kfmt("stat", BROKER / "compacted-0", "--json").of("stat")
    assert row["offset_density"] < 0.5
    assert row["null_keys"] is None


def test_what_if() -> None:
    codecs = ("--what-if", "zstd", "--what-if", "none", "--what-if", "zstd")
    result = kfmt("stat", BROKER / "codec-none-0", *codecs, "--json")
    zstd, none, again = result.of("what_if")
    assert zstd == again
    assert zstd["codec"] == "zstd"
    assert 0.5 < zstd["saved"] < 0.9
    assert none["saved"] == 0
    compressed_bytes = kfmt("stat", BROKER / "codec-zstd-0", "--json").of("stat")[0]["bytes"]
    uncompressed_bytes = kfmt("stat", BROKER / "codec-none-0", "--json").of("stat")[0]["bytes"]
    assert abs(compressed_bytes / uncompressed_bytes - (1 - zstd["saved"])) < 0.05
    for invalid in ("lzma", "snappy:3", "gzip:x", "gzip:99"):
        assert kfmt("stat", BROKER / "orders-0", "--what-if", invalid).code == 2


@pytest.mark.parametrize(
    ("codec", "levels"), [("gzip", (1, 9)), ("lz4", (1, 12)), ("zstd", (-3, 1, 19))]
)
def test_levels(codec: str, levels: tuple[int, ...]) -> None:
    data = b"".join(b'{"id":%d,"name":"some one"}' % i for i in range(5000))
    sizes = []
    for level in levels:
        compressed = compress(codec, data, 2, level)
        assert decompress(codec, compressed, len(data)) == data
        sizes.append(len(compressed))
    assert sizes == sorted(sizes, reverse=True)
    assert compress(codec, data, 2) == compress(codec, data, 2, None)


def test_a_table_and_damage() -> None:
    table = kfmt("stat", BROKER, "--histogram")
    assert table.code == 0
    assert "records per batch" in table.out
    assert kfmt("stat", "damaged_segments").code == 0
    assert kfmt("stat", "nothing-there").code == 3


def test_a_selection_counts_damaged_batches_that_can_be_decoded(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    for name, batches in ((ORDERS.name, (3, 5)), (f"{240:020}.log", (0,))):
        log = tmp_path / "orders-0" / name
        data = log.read_bytes()
        for batch in batches:
            data = with_bytes(data, positions(data)[batch] + 100, b"zzzz")
        log.write_bytes(data)
    selected = kfmt("stat", tmp_path, "--from-offset", "0", "--json")
    assert selected.of("stat")[0]["records"] == 1500
    assert selected.err == ""
    full = kfmt("stat", tmp_path, "--json")
    assert full.of("stat")[0]["records"] == 1500
    assert "damaged" not in full.err


def test_what_fills_the_disk(tmp_path: Path) -> None:
    broker = tmp_path / "data"
    shutil.copytree(BROKER, broker)
    partition = broker / "orders-0"
    with (partition / f"{1440:020}.index").open("r+b") as index:
        index.truncate(10 << 20)  # as a broker preallocates it
    (partition / f"{0:020}.log.deleted").write_bytes(b"x" * 5000)
    shutil.copytree(partition, broker / f"old-0.{'0' * 32}-delete")
    (broker / "remote-log-index-cache").mkdir()
    (broker / "remote-log-index-cache" / "0_abc.index").write_bytes(b"x" * 100)
    (broker / "notes.txt").write_text("mine")
    rows = {row["purpose"]: row for row in kfmt("stat", broker, "--json").of("disk_usage")}
    files = [path for path in broker.rglob("*") if path.is_file()]
    assert sum(row["files"] for row in rows.values()) == len(files)
    assert sum(row["bytes"] for row in rows.values()) == sum(file.stat().st_size for file in files)
    assert rows["indexes"]["bytes"] > 10 << 20 > rows["indexes"]["disk_bytes"]
    assert (rows["left_over"]["files"], rows["left_over"]["bytes"]) == (1, 5000)
    assert rows["remote_index_cache"]["bytes"] == 100
    assert rows["other"]["bytes"] == 4
    marked = sum(file.stat().st_size for file in files if "-delete" in str(file))
    assert rows["marked_delete"]["bytes"] == marked
    output = kfmt("stat", broker).out
    assert "left over, 8.2 kB: a broker deletes them when it starts" in output
    assert "other, 4.1 kB: no broker ever deletes them" in output
    assert "kfmt retention" in output
    assert rows["marked_delete"]["becomes"] == "A broker deletes them after it starts."
    assert rows["indexes"]["becomes"] is rows["indexes"]["freed_now"] is None


def test_what_retention_frees_is_what_retention_says(tmp_path: Path) -> None:
    (usage,) = (
        row for row in kfmt("stat", BROKER, "--json").of("disk_usage") if row["purpose"] == "logs"
    )
    (freed,) = kfmt("retention", BROKER, "--json").of("freed")
    assert (usage["freed_now"], usage["freed_later"]) == (freed["bytes_now"], freed["bytes_later"])
    assert 0 < usage["freed_now"] < usage["bytes"]
    segments = kfmt("retention", BROKER, "--json").of("retention")
    later = [row for row in segments if not row["odd"] and not row["deletable"]]
    times = [row["deletable_at"] for row in later if row["deletable_at"] is not None]
    assert usage["freed_by"] == max(times, default=None)
    data_directory = tmp_path / "data"
    shutil.copytree(BROKER / "orders-0", data_directory / "orders-0")
    shutil.copytree(BROKER / "orders-0", data_directory / f"orders-1.{'0' * 32}-stray")
    output = kfmt("stat", data_directory).out
    assert "logs, under Kafka's default settings: 195 kB deletable now\n" in output
    assert ": no broker ever deletes them" in output


def test_rows_by_size_and_totals() -> None:
    rows = kfmt("stat", BROKER, "--sort", "bytes", "--json").of("stat")
    sizes = [row["bytes"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    output = kfmt("stat", BROKER).out
    assert " topic __consumer_offsets " in output
    assert " 100% " in next(line for line in output.splitlines() if line.startswith(" all "))


@pytest.mark.parametrize("name", ["v1-gzip-0", "v1-appendtime-0", "v0-gzip-0", "upgraded-0"])
def test_wrappers_are_counted_by_what_they_hold(name: str) -> None:
    directory = SAMPLES / "kafka-2.8.2" / name
    records = kfmt("dump", directory, "--records", "--json").of("record")
    (deep,) = kfmt("stat", directory, "--deep", "--json").of("stat")
    assert deep["records"] == len(records)
    offsets = [row["offset"] for row in records]
    assert (deep["first_offset"], deep["last_offset"]) == (min(offsets), max(offsets))
    assert 0 < deep["offset_density"] <= 1
    times = [row["timestamp"] for row in records if (row["timestamp"] or -1) >= 0]
    assert deep["min_timestamp"] == min(times, default=None)
    (flat,) = kfmt("stat", directory, "--json").of("stat")
    assert flat["offset_density"] is None
    (first_batch, *_) = kfmt("dump", directory, "--json").of("batch")
    assert flat["first_offset"] == first_batch["base_offset"]  # null: inside the wrapper


def test_a_topics_timestamps_are_compared_within_each_partition(tmp_path: Path) -> None:
    def skew(*levels: str) -> int | None:
        (row,) = kfmt("stat", tmp_path, *levels, "--json").of("stat")
        skew_ms: int | None = row["timestamp_skew_ms"]
        return skew_ms

    shutil.copytree(BROKER / "orders-0", tmp_path / "orders-0")
    alone = skew()
    shutil.copytree(BROKER / "orders-0", tmp_path / "orders-1")
    assert skew("--by", "topic") == alone


def test_a_topic_is_counted_together_however_its_directories_are_named(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "txn-0", tmp_path / "disk" / "txn-1")
    relative = "sample_segments/kafka-3.9.1-broker1/txn-0"
    absolute = str(tmp_path / "disk" / "txn-1")
    for paths, file in (
        ((relative, absolute), ""),
        ((absolute, relative), ""),
        ((str(BROKER / "txn-0"), absolute), os.path.commonpath([BROKER, tmp_path / "disk"])),
        ((relative,), "sample_segments/kafka-3.9.1-broker1"),
    ):
        (row,) = kfmt("stat", *paths, "--by", "topic", "--json").of("stat")
        assert (row["topic"], row["file"]) == ("txn", file)
        assert row["records"] == 736 * len(paths)


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n" * 100)
    result = kfmt("stat", tmp_path / "notes.md")
    assert (result.code, result.out) == (3, "")
    assert "not a Kafka log" in result.err


def test_space_that_is_not_written_is_of_no_batch(tmp_path: Path) -> None:
    """It counts in the size of a preallocated log, but not in bytes per batch."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    shutil.copy(ORDERS, directory)
    (original,) = kfmt("stat", directory, "--json").of("stat")
    os.truncate(directory / ORDERS.name, 1 << 20)
    (preallocated,) = kfmt("stat", directory, "--json").of("stat")
    assert preallocated["bytes"] == 1 << 20
    for name in ("bytes_per_batch", "bytes_per_record", "offset_density", "batches"):
        assert preallocated[name] == original[name]


def test_a_filter_counts_the_batches_that_other_commands_show() -> None:
    """A batch that fails its checksum can be decoded: statistics verify no checksums."""
    directory = "damaged_segments/flipped-bit-0"
    for first, last in ((0, 239), (60, 79), (50, 99)):
        options = ("--from-offset", first, "--to-offset", last, directory, "--json")
        (row,) = kfmt("stat", *map(str, options)).of("stat")
        assert row["records"] == len(kfmt("dump", "--records", *map(str, options)).of("record"))
        assert row["records"] == last - first + 1
