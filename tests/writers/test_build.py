"""dump → build → dump is the identity; what options and handwritten lines build."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import RECORD_ROW
from kfmt_cli.writers.build.jsonl import AttributesJson, BatchLine, ControlJson, RecordLine
from tests.support.samples import (
    NOWHERE,
    ORDERS,
    UPGRADED,
    Row,
    environment,
    every_log,
    kfmt,
    sample_name,
)
from tools.kafka import ROOT, SAMPLES

LOGS = [log for log in every_log() if log.suffix == ".log" and log.stat().st_size]
METADATA = next(path.parent for path in sorted(SAMPLES.rglob("*.checkpoint")) if "-" in path.name)
TOPIC_COLUMNS = ("decoded_key", "decoded_value")  # depend on the directory's name
# Columns that depend on the path, or on how the codec's library compresses.
DERIVED = (*NOWHERE, "position", "batch_position", "size", "batch_length", "crc", *TOPIC_COLUMNS)


def rows(path: Path) -> list[Row]:
    return kfmt("dump", path, "--records", "--json").rows


def without_columns(rows: list[Row], names: tuple[str, ...]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


@pytest.mark.parametrize("log", LOGS, ids=sample_name)
def test_dump_build_dump_is_the_identity(log: Path, tmp_path: Path) -> None:
    dumped = kfmt("dump", log, "--records", "--json")
    assert dumped.code == 0
    result = kfmt("build", "-", tmp_path / "out", stdin=dumped.out.encode())
    assert result.code == 0, result.err
    (built_log,) = (tmp_path / "out").glob("*.log")
    assert built_log.name[:20] == log.name[:20]
    rows_before = dumped.rows
    compressed = any(
        row["attributes"]["compression"] != "none" for row in rows_before if row["type"] == "batch"
    )
    append_time = any(row.get("timestamp_type") == "LogAppendTime" for row in rows_before)
    if not compressed and not append_time:
        assert built_log.read_bytes() == log.read_bytes()
    rows_after = rows(built_log)
    assert without_columns(rows_after, DERIVED) == without_columns(rows_before, DERIVED)
    assert all(row["crc_valid"] for row in rows_after if row["type"] == "batch")


def test_a_whole_partition_keeps_its_segments(tmp_path: Path) -> None:
    directory = UPGRADED.parents[1] / "v2-none-0"
    dumped = kfmt("dump", directory, "--records", "--json")
    assert kfmt("build", "-", tmp_path / "out", stdin=dumped.out.encode()).code == 0
    for log in directory.glob("*.log"):
        assert (tmp_path / "out" / log.name).read_bytes() == log.read_bytes()


def test_several_partitions_get_a_directory_each(tmp_path: Path) -> None:
    broker = UPGRADED.parents[1]
    dumped = kfmt(
        "dump", broker / "v2-none-0", broker / "v1-none-0", "--records", "--json"
    ).out.encode()
    assert kfmt("build", "-", tmp_path / "out", stdin=dumped).code == 0
    for name in ("v2-none-0", "v1-none-0"):
        for log in (broker / name).glob("*.log"):
            assert (tmp_path / "out" / name / log.name).read_bytes() == log.read_bytes()


def lines(*objects: Row) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in objects)


def build_rows(tmp_path: Path, data: bytes, *options: str) -> list[Row]:
    out = tmp_path / "out"
    result = kfmt("build", "-", out, *options, stdin=data)
    assert result.code == 0, result.err
    assert kfmt("verify-crc", "--deep", "--strict", out).code == 0
    assert kfmt("index-check", "--strict", out).code == 0
    return rows(out)


@pytest.mark.parametrize("magic", ["0", "1"])
def test_old_magics_have_no_zstd(magic: str, tmp_path: Path) -> None:
    options = ("--magic", magic, "--compression", "zstd")
    result = kfmt("build", "-", tmp_path / "out", *options, stdin=lines({"value": "v"}))
    assert result.code == 2
    assert "zstd" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("codec", "magic"),
    [
        (codec, magic)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        for magic in ("0", "1", "2")
        if codec != "zstd" or magic == "2"
    ],
)
def test_every_codec_and_magic(codec: str, magic: str, tmp_path: Path) -> None:
    data = lines(*({"key": f"k{i}", "value": "v" * i, "timestamp": 1000 + i} for i in range(300)))
    rebuilt = build_rows(
        tmp_path, data, "--magic", magic, "--compression", codec, "--batch-records", "50"
    )
    records = [row for row in rebuilt if row["type"] == "record"]
    assert [row["offset"] for row in records] == list(range(300))
    assert [row["value"] for row in records] == ["v" * i for i in range(300)]
    times = [None if magic == "0" else 1000 + i for i in range(300)]
    assert [row["timestamp"] for row in records] == times
    batches = [row for row in rebuilt if row["type"] == "batch"]
    assert {row["magic"] for row in batches} == {int(magic)}
    assert len(batches) == (300 if magic != "2" and codec == "none" else 6)
    assert {row["attributes"]["compression"] for row in batches} == {codec}


def test_null_is_not_empty(tmp_path: Path) -> None:
    data = lines(
        {"key": None, "value": ""},
        {"key": "", "value": None},
        {"headers": [{"key": "a", "value": None}, {"key": "a", "value": ""}, {"key": ""}]},
        {"value": "AP8=", "value_encoding": "base64"},
        {"value": "00ff", "value_encoding": "hex"},
    )
    records = [row for row in build_rows(tmp_path, data) if row["type"] == "record"]
    assert [(row["key"], row["value"]) for row in records[:3]] == [
        (None, ""),
        ("", None),
        (None, None),
    ]
    assert [record["value"] for record in records[2]["headers"]] == [None, "", None]
    assert records[3]["value"] == records[4]["value"] == "AP8="


def test_producers_transactions_and_markers(tmp_path: Path) -> None:
    data = lines(
        {"value": "a"},
        {"value": "b"},
        {"control": {"type": "ABORT", "coordinator_epoch": 3}},
        {"value": "c"},
        {"control": {"type": "COMMIT", "coordinator_epoch": 3}},
    )
    rebuilt = build_rows(
        tmp_path, data, "--producer-id", "5", "--producer-epoch", "2", "--transactional"
    )
    batches = [row for row in rebuilt if row["type"] == "batch"]
    assert [row["base_sequence"] for row in batches] == [0, -1, 2, -1]
    assert all(row["attributes"]["transactional"] for row in batches)
    assert [row["attributes"]["control"] for row in batches] == [False, True, False, True]
    assert {(row["producer_id"], row["producer_epoch"]) for row in batches} == {(5, 2)}
    controls = [row["control"] for row in rebuilt if "control" in row]
    assert controls == [
        {"type": "ABORT", "version": 0, "coordinator_epoch": 3},
        {"type": "COMMIT", "version": 0, "coordinator_epoch": 3},
    ]
    (aborted,) = kfmt("dump", next((tmp_path / "out").glob("*.txnindex")), "--json").rows
    assert (aborted["first_offset"], aborted["last_offset"]) == (0, 2)
    (state,) = kfmt("dump", next((tmp_path / "out").glob("*.snapshot")), "--json").rows
    assert (state["last_sequence"], state["coordinator_epoch"]) == (2, 3)


def test_the_four_reasons_to_roll(tmp_path: Path) -> None:
    def bases(name: str, data: bytes, *options: str) -> list[int]:
        build_rows(tmp_path / name, data, *options)
        return sorted(int(path.name[:20]) for path in (tmp_path / name / "out").glob("*.log"))

    one_record_batches = ("--batch-records", "1")
    same_time = [{"value": "x" * 1000, "timestamp": 5} for _ in range(10)]
    size = bases("size", lines(*same_time), *one_record_batches, "--segment-bytes", "3300")
    assert size == [0, 3, 6, 9]
    day = 86_400_000
    aged = [{"value": "x", "timestamp": i * day} for i in range(20)]
    assert bases("age", lines(*aged), *one_record_batches) == [0, 8, 16]
    assert bases("ms", lines(*aged), *one_record_batches, "--segment-ms", str(3 * day)) == [
        0,
        4,
        8,
        12,
        16,
    ]
    far_apart = [
        {"value": "x", "timestamp": 5, "offset": offset}
        for offset in (7, 8, (1 << 31) + 6, 1 << 31 | 7)
    ]
    assert bases("far", lines(*far_apart), *one_record_batches) == [7, (1 << 31) + 7]
    index = bases(
        "index",
        lines(*same_time),
        *(*one_record_batches, "--segment-index-bytes", "36", "--index-interval-bytes", "1"),
    )
    assert index == [0, 5]  # four entries: the second to the fifth batch


def test_log_append_time_is_one_time_a_batch(tmp_path: Path) -> None:
    data = lines(*({"value": "x", "timestamp": timestamp} for timestamp in (5, 5, 6, 7, 7)))
    rebuilt = build_rows(tmp_path, data, "--timestamp-type", "LogAppendTime")
    batches = [row for row in rebuilt if row["type"] == "batch"]
    assert [row["max_timestamp"] for row in batches] == [5, 6, 7]
    assert [row["timestamp"] for row in rebuilt if row["type"] == "record"] == [5, 5, 6, 7, 7]


def test_an_edited_dump(tmp_path: Path) -> None:
    dumped = kfmt("dump", UPGRADED.parents[1] / "v2-none-0", "--records", "--json").rows
    first = [row for row in dumped if row["file"].endswith("00000000000000000000.log")][:21]
    first[1]["value"] = "edited"
    first.append({"type": "record", "value": "one more", "timestamp": 1})
    first.insert(0, {"type": "finding", "code": "crc-mismatch"})
    result = kfmt("build", "-", tmp_path / "out", stdin=lines(*first))
    assert result.code == 0
    assert "skipped 1 line that is a finding or result" in result.err
    assert "changed records_count in 1 batch" in result.err
    rebuilt = rows(tmp_path / "out")
    assert rebuilt[0]["records_count"] == 21
    assert rebuilt[1]["value"] == "edited"
    assert rebuilt[-1]["offset"] == rebuilt[0]["last_offset"] == 20


def test_every_name_of_a_dump_is_known_to_build() -> None:
    for row_type, line in ((BATCH_ROW, BatchLine), (RECORD_ROW, RecordLine)):
        fields = {field.encode_name for field in msgspec.structs.fields(line)}
        assert {column.name for column in row_type.columns} <= fields
    members_by_column = {
        column.name: {member.name for member in column.members}
        for column in (*BATCH_ROW.columns, *RECORD_ROW.columns)
        if column.members
    }
    names = {field.encode_name for field in msgspec.structs.fields(AttributesJson)}
    assert members_by_column == {
        "attributes": names,
        "control": {field.encode_name for field in msgspec.structs.fields(ControlJson)},
    }


def test_a_segment_that_lines_name_is_kept_whole_whatever_its_age(tmp_path: Path) -> None:
    objects = [{"type": "batch", "file": "p-0/00000000000000000003.log", "base_offset": 3}]
    for i, days in enumerate((0, 8, 400, 4000)):
        objects.append(
            {"type": "record", "value": "v", "timestamp": days * 86_400_000, "offset": 3 + i}
        )
        if i < 3:
            objects.append({**objects[0], "base_offset": 4 + i})
    rebuilt = build_rows(tmp_path, lines(*objects))
    assert [path.name for path in (tmp_path / "out").glob("*.log")] == ["00000000000000000003.log"]
    assert len([row for row in rebuilt if row["type"] == "batch"]) == 4
    rolled = build_rows(tmp_path / "rolled", lines(*objects), "--segment-ms", str(7 * 86_400_000))
    assert len(rolled) == 8
    assert len(list((tmp_path / "rolled/out").glob("*.log"))) == 4


@pytest.mark.parametrize(
    ("file", "base"),
    [
        (f"{250:020}.log", 250),
        (f"{250:020}-z49ds8O3SEaHzN37xWVXMA.log", 250),  # as tiered storage names it
        (f"t-0/{250:020}.log", 250),
        *((f"{250:019}.log", 300), (f"{250:021}.log", 300), ("notes-250.log", 300)),
        ("٢" * 20 + ".log", 300),
    ],
)
def test_the_name_of_a_file_says_where_its_segment_begins(
    file: str, base: int, tmp_path: Path
) -> None:
    build_rows(tmp_path, lines({"offset": 300, "value": "a", "file": file}))
    names = [path.name for path in tmp_path.rglob("*.log")]
    assert names == [f"{base:020}.log"]


def test_kraft_snapshots_are_built_as_what_they_are(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(METADATA, directory)
    (snapshot,) = list(directory.glob("*.checkpoint"))[:1]
    (directory / "bootstrap.checkpoint").write_bytes(snapshot.read_bytes())
    dumped = kfmt("dump", directory, "--records", "--json")
    assert dumped.code == 0
    out = tmp_path / "out"
    result = kfmt("build", "-", out, stdin=dumped.out.encode())
    assert result.code == 0, result.err
    for name in ("*.checkpoint", "*.log"):
        original = {
            path.name: path.read_bytes() for path in directory.glob(name) if path.stat().st_size
        }
        assert original == {path.name: path.read_bytes() for path in out.glob(name)}
        assert original


def batches_of(tmp_path: Path, data: bytes, *options: str) -> list[Row]:
    return [row for row in build_rows(tmp_path, data, *options) if row["type"] == "batch"]


def test_options_override_batch_lines(tmp_path: Path) -> None:
    dumped = kfmt("dump", ORDERS, "--records", "--json")
    original = dumped.rows
    data = dumped.out.encode()

    def rebuild(name: str, *options: str) -> tuple[list[Row], list[Row]]:
        rebuilt = build_rows(tmp_path / name, data, *options)
        names = ("offset", "key", "value", "headers")
        content = [[row[name] for name in names] for row in rebuilt if row["type"] == "record"]
        assert content == [
            [row[name] for name in names] for row in original if row["type"] == "record"
        ]
        batches = [row for row in rebuilt if row["type"] == "batch"]
        return batches, [row for row in rebuilt if row["type"] == "record"]

    original_batches = [row for row in original if row["type"] == "batch"]
    batches, _ = rebuild("codec", "--compression", "zstd")
    assert {row["attributes"]["compression"] for row in batches} == {"zstd"}
    assert len(batches) == len(original_batches)
    batches, _ = rebuild("records", "--batch-records", "7")
    counts = [row["records_count"] for row in batches]
    assert counts == [n for row in original_batches for n in _sevens(row["records_count"])]
    assert all(row["partition_leader_epoch"] == 0 for row in batches)
    assert all(row["last_offset_delta"] == row["records_count"] - 1 for row in batches)
    batches, _ = rebuild("bytes", "--batch-bytes", "1000")
    assert len(batches) > len(original_batches)
    batches, _ = rebuild("producer", "--producer-id", "77", "--producer-epoch", "3")
    assert {(row["producer_id"], row["producer_epoch"]) for row in batches} == {(77, 3)}
    sequences = [0]
    for row in batches:
        sequences.append(sequences[-1] + row["records_count"])
    assert [row["base_sequence"] for row in batches] == sequences[:-1]
    batches, records = rebuild("time", "--timestamp-type", "LogAppendTime")
    assert {row["attributes"]["timestamp_type"] for row in batches} == {"LogAppendTime"}
    assert {row["timestamp"] for row in records} == {row["max_timestamp"] for row in batches}
    assert [row["max_timestamp"] for row in batches] == [
        row["max_timestamp"] for row in original_batches
    ]
    batches, _ = rebuild("all", "--producer-id", "5", "--transactional", "--batch-records", "3")
    assert all(row["attributes"]["transactional"] for row in batches)
    assert [row["base_sequence"] for row in batches] == [row["base_offset"] for row in batches]


def _sevens(n: int) -> list[int]:
    return [7] * (n // 7) + ([n % 7] if n % 7 else [])


def test_options_win_over_the_magic_of_batch_lines_and_the_fields_of_records(
    tmp_path: Path,
) -> None:
    dumped = kfmt("dump", UPGRADED, "--records", "--json").out.encode()
    rebuilt = build_rows(
        tmp_path / "magic", dumped, "--magic", "2", "--timestamp-type", "CreateTime"
    )
    assert {row["magic"] for row in rebuilt if row["type"] == "batch"} == {2}
    assert {row["timestamp_type"] for row in rebuilt if row["type"] == "record"} == {"CreateTime"}
    record = {"value": "a", "producer_id": 9, "producer_epoch": 9, "timestamp_type": "CreateTime"}
    options = ("--producer-id", "5", "--producer-epoch", "1", "--timestamp-type", "LogAppendTime")
    (batch,) = batches_of(tmp_path / "loose", lines(record), *options)
    assert (batch["producer_id"], batch["producer_epoch"]) == (5, 1)
    assert batch["attributes"]["timestamp_type"] == "LogAppendTime"


@pytest.mark.parametrize("magic", ["0", "1", "2"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_batches_built_from_many_chunks_are_those_built_at_once(
    magic: str, codec: str, tmp_path: Path
) -> None:
    options = ["--magic", magic, "--compression", codec]
    values = ({"key": f"k{i}", "value": "v" * (i % 50), "timestamp": i} for i in range(20_000))
    data = lines(*values)
    size = ("--batch-bytes", "1G", "--batch-records")
    rebuilt = build_rows(tmp_path / "loose", data, *options, *size, "9999")
    batches = [row for row in rebuilt if row["type"] == "batch"]
    records = [row for row in rebuilt if row["type"] == "record"]
    assert [row["offset"] for row in records] == list(range(20_000))
    assert [row["key"] for row in records] == [f"k{i}" for i in range(20_000)]
    if (magic, codec) not in {("0", "none"), ("1", "none")}:
        assert [row["last_offset"] for row in batches] == [9998, 19997, 19999]
    dumped = lines(*rebuilt)
    (tmp_path / "given").mkdir()
    rebuilt_twice = build_rows(tmp_path / "given", dumped)
    assert without_columns(rebuilt_twice, DERIVED) == without_columns(rebuilt, DERIVED)
    log = "out/00000000000000000000.log"
    assert (tmp_path / "given" / log).read_bytes() == (tmp_path / "loose" / log).read_bytes()
    if magic == "2":
        smaller = build_rows(tmp_path / "cut", dumped, "--batch-records", "8000")
        counts = [row["records_count"] for row in smaller if row["type"] == "batch"]
        assert counts == [8000, 1999, 8000, 1999, 2]


def test_records_of_a_batch_line_without_offsets_follow_each_other_in_many_chunks(
    tmp_path: Path,
) -> None:
    records = [{"value": "v" * (i % 90)} for i in range(40_000)]
    data = lines({"type": "batch", "base_offset": 70}, *records, {"value": "x", "offset": 99_999})
    rebuilt = build_rows(tmp_path, data)
    (batch,) = (row for row in rebuilt if row["type"] == "batch")
    assert (batch["base_offset"], batch["last_offset"]) == (70, 99_999)
    offsets = [row["offset"] for row in rebuilt if row["type"] == "record"]
    assert offsets == [*range(70, 40_070), 99_999]


def test_the_offsets_of_partitions_are_their_own(tmp_path: Path) -> None:
    data = lines(
        {"file": "a-0/00000000000000000000.log", "value": "1", "producer_id": 7},
        {"file": "b-0/00000000000000000000.log", "value": "2", "producer_id": 7},
        {"file": "b-0/00000000000000000050.log", "value": "3", "producer_id": 7},
        {"file": "a-0/00000000000000000009.log", "value": "4", "producer_id": 7},
    )
    rebuilt = build_rows(tmp_path, data)
    paths_and_offsets = [(row["file"], row["offset"]) for row in rebuilt if row["type"] == "record"]
    assert [(Path(name).parent.name, offset) for name, offset in paths_and_offsets] == [
        *(("a-0", 0), ("a-0", 9), ("b-0", 0), ("b-0", 50))
    ]
    sequences = [row["base_sequence"] for row in rebuilt if row["type"] == "batch"]
    assert sequences == [0, 1, 0, 1]


def test_offsets_far_apart_and_at_the_maximum(tmp_path: Path) -> None:
    offsets = [3, 7, 500, 2_000_000_000, 3_000_000_000, (1 << 63) - 2]
    for magic in ("0", "1", "2"):
        for codec in ("none", "gzip"):
            data = lines(*({"value": "x", "offset": offset, "timestamp": 9} for offset in offsets))
            directory = tmp_path / f"{magic}-{codec}"
            options = ("--magic", magic, "--compression", codec)
            rebuilt = build_rows(directory, data, *options)
            assert [row["offset"] for row in rebuilt if row["type"] == "record"] == offsets
            assert len(list((directory / "out").glob("*.log"))) == 3


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + b'{"value":"a"}\r\n{"value":"b"}\r\n'
    records = [row for row in build_rows(tmp_path, data) if row["type"] == "record"]
    assert [row["value"] for row in records] == ["a", "b"]


def test_mixed_magic_in_one_segment(tmp_path: Path) -> None:
    dumped = kfmt("dump", UPGRADED, "--records", "--json")
    rebuilt = build_rows(tmp_path, dumped.out.encode())
    assert {row["magic"] for row in rebuilt if row["type"] == "batch"} == {0, 1, 2}


def resource_usage(*arguments: str | Path) -> tuple[float, int]:
    """The CPU seconds and the peak memory in KiB of a run of kfmt."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    command = [sys.executable, "-c", code, sys.executable, "-m", "kfmt_cli", *map(str, arguments)]
    result = subprocess.run(
        command, capture_output=True, check=True, env=environment(), cwd=ROOT, timeout=300
    )
    seconds, memory = result.stdout.split()
    return float(seconds), int(memory)


def test_one_large_batch_takes_time_and_memory_in_proportion(tmp_path: Path) -> None:
    n, size = 200_000, 250
    source = tmp_path / "lines"
    line = '{"key":"%08d","value":"' + "v" * (size - 30) + '"}\n'
    source.write_text("".join(line % i for i in range(n)))
    small_batches, one_batch = tmp_path / "many", tmp_path / "one"
    limits = ("--batch-bytes", "1G", "--batch-records")
    expected_seconds, expected_memory = resource_usage(
        "build", source, small_batches, *limits, "1000"
    )
    one_batch_seconds, one_batch_memory = resource_usage(
        "build", source, one_batch, *limits, str(n)
    )
    assert one_batch_seconds < 2 * expected_seconds + 1
    log = one_batch / "00000000000000000000.log"
    assert log.stat().st_size > n * (size - 20)
    assert (one_batch_memory - expected_memory) << 10 < 2.5 * log.stat().st_size
    _, check_memory = resource_usage("verify-crc", log)
    _, dump_memory = resource_usage("dump", log, "--records", "--json")
    assert (dump_memory - check_memory) << 10 < 2 * log.stat().st_size
