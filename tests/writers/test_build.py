"""dump → build → dump is the identity; what options and hand-made lines make."""

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
from kfmt_cli.writers.build.jsonl import AttributesJson, Batch, ControlJson, Record
from tests.support.samples import (
    NOWHERE,
    ORDERS,
    UPGRADED,
    Row,
    environment,
    every_log,
    kfmt,
    name_of,
)
from tools.kafka import ROOT, SAMPLES

LOGS = [log for log in every_log() if log.suffix == ".log" and log.stat().st_size]
METADATA = next(path.parent for path in sorted(SAMPLES.rglob("*.checkpoint")) if "-" in path.name)
# They follow from how the codec's library compresses.
OF_TOPICS = ("decoded_key", "decoded_value")  # by the directory's name
DERIVED = (*NOWHERE, "position", "batch_position", "size", "batch_length", "crc", *OF_TOPICS)


def rows(path: Path) -> list[Row]:
    return kfmt("dump", path, "--records", "--json").rows


def without(rows: list[Row], names: tuple[str, ...]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


@pytest.mark.parametrize("log", LOGS, ids=name_of)
def test_dump_build_dump_is_the_identity(log: Path, tmp_path: Path) -> None:
    dumped = kfmt("dump", log, "--records", "--json")
    assert dumped.code == 0
    done = kfmt("build", "-", tmp_path / "out", stdin=dumped.out.encode())
    assert done.code == 0, done.err
    (built,) = (tmp_path / "out").glob("*.log")
    assert built.name[:20] == log.name[:20]
    before = dumped.rows
    compressed = any(
        row["attributes"]["compression"] != "none" for row in before if row["type"] == "batch"
    )
    append_time = any(row.get("timestamp_type") == "LogAppendTime" for row in before)
    if not compressed and not append_time:
        assert built.read_bytes() == log.read_bytes()
    again = rows(built)
    assert without(again, DERIVED) == without(before, DERIVED)
    assert all(row["crc_valid"] for row in again if row["type"] == "batch")


def test_a_whole_partition_keeps_its_segments(tmp_path: Path) -> None:
    folder = UPGRADED.parents[1] / "v2-none-0"
    dumped = kfmt("dump", folder, "--records", "--json")
    assert kfmt("build", "-", tmp_path / "out", stdin=dumped.out.encode()).code == 0
    for log in folder.glob("*.log"):
        assert (tmp_path / "out" / log.name).read_bytes() == log.read_bytes()


def test_several_partitions_get_a_folder_each(tmp_path: Path) -> None:
    broker = UPGRADED.parents[1]
    dumped = kfmt(
        "dump", broker / "v2-none-0", broker / "v1-none-0", "--records", "--json"
    ).out.encode()
    assert kfmt("build", "-", tmp_path / "out", stdin=dumped).code == 0
    for name in ("v2-none-0", "v1-none-0"):
        for log in (broker / name).glob("*.log"):
            assert (tmp_path / "out" / name / log.name).read_bytes() == log.read_bytes()


def lines(*given: Row) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in given)


def built(tmp_path: Path, data: bytes, *options: str) -> list[Row]:
    out = tmp_path / "out"
    done = kfmt("build", "-", out, *options, stdin=data)
    assert done.code == 0, done.err
    assert kfmt("verify-crc", "--deep", "--strict", out).code == 0
    assert kfmt("index-check", "--strict", out).code == 0
    return rows(out)


@pytest.mark.parametrize("magic", ["0", "1"])
def test_old_magics_have_no_zstd(magic: str, tmp_path: Path) -> None:
    options = ("--magic", magic, "--compression", "zstd")
    done = kfmt("build", "-", tmp_path / "out", *options, stdin=lines({"value": "v"}))
    assert done.code == 2
    assert "zstd" in done.err
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
    again = built(tmp_path, data, "--magic", magic, "--compression", codec, "--batch-records", "50")
    records = [row for row in again if row["type"] == "record"]
    assert [row["offset"] for row in records] == list(range(300))
    assert [row["value"] for row in records] == ["v" * i for i in range(300)]
    times = [None if magic == "0" else 1000 + i for i in range(300)]
    assert [row["timestamp"] for row in records] == times
    batches = [row for row in again if row["type"] == "batch"]
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
    records = [row for row in built(tmp_path, data) if row["type"] == "record"]
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
    again = built(tmp_path, data, "--producer-id", "5", "--producer-epoch", "2", "--transactional")
    batches = [row for row in again if row["type"] == "batch"]
    assert [row["base_sequence"] for row in batches] == [0, -1, 2, -1]
    assert all(row["attributes"]["transactional"] for row in batches)
    assert [row["attributes"]["control"] for row in batches] == [False, True, False, True]
    assert {(row["producer_id"], row["producer_epoch"]) for row in batches} == {(5, 2)}
    controls = [row["control"] for row in again if "control" in row]
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
        built(tmp_path / name, data, *options)
        return sorted(int(path.name[:20]) for path in (tmp_path / name / "out").glob("*.log"))

    one_each = ("--batch-records", "1")
    same = [{"value": "x" * 1000, "timestamp": 5} for _ in range(10)]
    size = bases("size", lines(*same), *one_each, "--segment-bytes", "3300")
    assert size == [0, 3, 6, 9]
    day = 86_400_000
    aged = [{"value": "x", "timestamp": i * day} for i in range(20)]
    assert bases("age", lines(*aged), *one_each) == [0, 8, 16]
    assert bases("ms", lines(*aged), *one_each, "--segment-ms", str(3 * day)) == [0, 4, 8, 12, 16]
    far = [
        {"value": "x", "timestamp": 5, "offset": number}
        for number in (7, 8, (1 << 31) + 6, 1 << 31 | 7)
    ]
    assert bases("far", lines(*far), *one_each) == [7, (1 << 31) + 7]
    index = bases(
        "index",
        lines(*same),
        *(*one_each, "--segment-index-bytes", "36", "--index-interval-bytes", "1"),
    )
    assert index == [0, 5]  # four entries: the second to the fifth batch


def test_log_append_time_is_one_time_a_batch(tmp_path: Path) -> None:
    data = lines(*({"value": "x", "timestamp": name} for name in (5, 5, 6, 7, 7)))
    again = built(tmp_path, data, "--timestamp-type", "LogAppendTime")
    batches = [row for row in again if row["type"] == "batch"]
    assert [row["max_timestamp"] for row in batches] == [5, 6, 7]
    assert [row["timestamp"] for row in again if row["type"] == "record"] == [5, 5, 6, 7, 7]


def test_an_edited_dump(tmp_path: Path) -> None:
    dumped = kfmt("dump", UPGRADED.parents[1] / "v2-none-0", "--records", "--json").rows
    first = [row for row in dumped if row["file"].endswith("00000000000000000000.log")][:21]
    first[1]["value"] = "edited"
    first.append({"type": "record", "value": "one more", "timestamp": 1})
    first.insert(0, {"type": "finding", "code": "crc-mismatch"})
    done = kfmt("build", "-", tmp_path / "out", stdin=lines(*first))
    assert done.code == 0
    assert "skipped 1 line that is a finding or result" in done.err
    assert "changed records_count in 1 batch" in done.err
    again = rows(tmp_path / "out")
    assert again[0]["records_count"] == 21
    assert again[1]["value"] == "edited"
    assert again[-1]["offset"] == again[0]["last_offset"] == 20


def test_every_name_of_a_dump_is_known_to_build() -> None:
    for shown, line in ((BATCH_ROW, Batch), (RECORD_ROW, Record)):
        known = {field.encode_name for field in msgspec.structs.fields(line)}
        assert {column.name for column in shown.columns} <= known
    of_groups = {
        column.name: {inner.name for inner in column.members}
        for column in (*BATCH_ROW.columns, *RECORD_ROW.columns)
        if column.members
    }
    names = {field.encode_name for field in msgspec.structs.fields(AttributesJson)}
    assert of_groups == {
        "attributes": names,
        "control": {field.encode_name for field in msgspec.structs.fields(ControlJson)},
    }


def test_a_segment_that_lines_name_is_kept_whole_whatever_its_age(tmp_path: Path) -> None:
    far = [{"type": "batch", "file": "p-0/00000000000000000003.log", "base_offset": 3}]
    for i, days in enumerate((0, 8, 400, 4000)):
        far.append(
            {"type": "record", "value": "v", "timestamp": days * 86_400_000, "offset": 3 + i}
        )
        if i < 3:
            far.append({**far[0], "base_offset": 4 + i})
    again = built(tmp_path, lines(*far))
    assert [path.name for path in (tmp_path / "out").glob("*.log")] == ["00000000000000000003.log"]
    assert len([row for row in again if row["type"] == "batch"]) == 4
    rolled = built(tmp_path / "rolled", lines(*far), "--segment-ms", str(7 * 86_400_000))
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
    built(tmp_path, lines({"offset": 300, "value": "a", "file": file}))
    names = [path.name for path in tmp_path.rglob("*.log")]
    assert names == [f"{base:020}.log"]


def test_kraft_snapshots_are_built_as_what_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    shutil.copytree(METADATA, folder)
    (snapshot,) = list(folder.glob("*.checkpoint"))[:1]
    (folder / "bootstrap.checkpoint").write_bytes(snapshot.read_bytes())
    dumped = kfmt("dump", folder, "--records", "--json")
    assert dumped.code == 0
    out = tmp_path / "out"
    done = kfmt("build", "-", out, stdin=dumped.out.encode())
    assert done.code == 0, done.err
    for name in ("*.checkpoint", "*.log"):
        before = {path.name: path.read_bytes() for path in folder.glob(name) if path.stat().st_size}
        assert before == {path.name: path.read_bytes() for path in out.glob(name)}
        assert before


def batches_of(tmp_path: Path, data: bytes, *options: str) -> list[Row]:
    return [row for row in built(tmp_path, data, *options) if row["type"] == "batch"]


def test_what_options_ask_for_wins_over_batch_lines(tmp_path: Path) -> None:
    dumped = kfmt("dump", ORDERS, "--records", "--json")
    before = dumped.rows
    data = dumped.out.encode()

    def made(name: str, *options: str) -> tuple[list[Row], list[Row]]:
        again = built(tmp_path / name, data, *options)
        names = ("offset", "key", "value", "headers")
        content = [[row[name] for name in names] for row in again if row["type"] == "record"]
        assert content == [
            [row[name] for name in names] for row in before if row["type"] == "record"
        ]
        batches = [row for row in again if row["type"] == "batch"]
        return batches, [row for row in again if row["type"] == "record"]

    plain = [row for row in before if row["type"] == "batch"]
    batches, _ = made("codec", "--compression", "zstd")
    assert {row["attributes"]["compression"] for row in batches} == {"zstd"}
    assert len(batches) == len(plain)
    batches, _ = made("records", "--batch-records", "7")
    counts = [row["records_count"] for row in batches]
    assert counts == [n for row in plain for n in _sevens(row["records_count"])]
    assert all(row["partition_leader_epoch"] == 0 for row in batches)
    assert all(row["last_offset_delta"] == row["records_count"] - 1 for row in batches)
    batches, _ = made("bytes", "--batch-bytes", "1000")
    assert len(batches) > len(plain)
    batches, _ = made("producer", "--producer-id", "77", "--producer-epoch", "3")
    assert {(row["producer_id"], row["producer_epoch"]) for row in batches} == {(77, 3)}
    sequences = [0]
    for row in batches:
        sequences.append(sequences[-1] + row["records_count"])
    assert [row["base_sequence"] for row in batches] == sequences[:-1]
    batches, records = made("time", "--timestamp-type", "LogAppendTime")
    assert {row["attributes"]["timestamp_type"] for row in batches} == {"LogAppendTime"}
    assert {row["timestamp"] for row in records} == {row["max_timestamp"] for row in batches}
    assert [row["max_timestamp"] for row in batches] == [row["max_timestamp"] for row in plain]
    batches, _ = made("all", "--producer-id", "5", "--transactional", "--batch-records", "3")
    assert all(row["attributes"]["transactional"] for row in batches)
    assert [row["base_sequence"] for row in batches] == [row["base_offset"] for row in batches]


def _sevens(n: int) -> list[int]:
    return [7] * (n // 7) + ([n % 7] if n % 7 else [])


def test_options_win_over_the_magic_of_batch_lines_and_the_fields_of_records(
    tmp_path: Path,
) -> None:
    dumped = kfmt("dump", UPGRADED, "--records", "--json").out.encode()
    again = built(tmp_path / "magic", dumped, "--magic", "2", "--timestamp-type", "CreateTime")
    assert {row["magic"] for row in again if row["type"] == "batch"} == {2}
    assert {row["timestamp_type"] for row in again if row["type"] == "record"} == {"CreateTime"}
    record = {"value": "a", "producer_id": 9, "producer_epoch": 9, "timestamp_type": "CreateTime"}
    options = ("--producer-id", "5", "--producer-epoch", "1", "--timestamp-type", "LogAppendTime")
    (batch,) = batches_of(tmp_path / "loose", lines(record), *options)
    assert (batch["producer_id"], batch["producer_epoch"]) == (5, 1)
    assert batch["attributes"]["timestamp_type"] == "LogAppendTime"


@pytest.mark.parametrize("magic", ["0", "1", "2"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_batches_that_come_in_many_pieces_are_those_of_one(
    magic: str, codec: str, tmp_path: Path
) -> None:
    options = ["--magic", magic, "--compression", codec]
    values = ({"key": f"k{i}", "value": "v" * (i % 50), "timestamp": i} for i in range(20_000))
    data = lines(*values)
    size = ("--batch-bytes", "1G", "--batch-records")
    again = built(tmp_path / "loose", data, *options, *size, "9999")
    batches = [row for row in again if row["type"] == "batch"]
    records = [row for row in again if row["type"] == "record"]
    assert [row["offset"] for row in records] == list(range(20_000))
    assert [row["key"] for row in records] == [f"k{i}" for i in range(20_000)]
    if (magic, codec) not in {("0", "none"), ("1", "none")}:
        assert [row["last_offset"] for row in batches] == [9998, 19997, 19999]
    dumped = lines(*again)
    (tmp_path / "given").mkdir()
    same = built(tmp_path / "given", dumped)
    assert without(same, DERIVED) == without(again, DERIVED)
    log = "out/00000000000000000000.log"
    assert (tmp_path / "given" / log).read_bytes() == (tmp_path / "loose" / log).read_bytes()
    if magic == "2":
        smaller = built(tmp_path / "cut", dumped, "--batch-records", "8000")
        counts = [row["records_count"] for row in smaller if row["type"] == "batch"]
        assert counts == [8000, 1999, 8000, 1999, 2]


def test_records_of_a_batch_line_without_offsets_follow_each_other_in_many_pieces(
    tmp_path: Path,
) -> None:
    records = [{"value": "v" * (i % 90)} for i in range(40_000)]
    data = lines({"type": "batch", "base_offset": 70}, *records, {"value": "x", "offset": 99_999})
    again = built(tmp_path, data)
    (batch,) = (row for row in again if row["type"] == "batch")
    assert (batch["base_offset"], batch["last_offset"]) == (70, 99_999)
    found = [row["offset"] for row in again if row["type"] == "record"]
    assert found == [*range(70, 40_070), 99_999]


def test_the_offsets_of_partitions_are_their_own(tmp_path: Path) -> None:
    data = lines(
        {"file": "a-0/00000000000000000000.log", "value": "1", "producer_id": 7},
        {"file": "b-0/00000000000000000000.log", "value": "2", "producer_id": 7},
        {"file": "b-0/00000000000000000050.log", "value": "3", "producer_id": 7},
        {"file": "a-0/00000000000000000009.log", "value": "4", "producer_id": 7},
    )
    again = built(tmp_path, data)
    found = [(row["file"], row["offset"]) for row in again if row["type"] == "record"]
    assert [(Path(name).parent.name, offset) for name, offset in found] == [
        *(("a-0", 0), ("a-0", 9), ("b-0", 0), ("b-0", 50))
    ]
    sequences = [row["base_sequence"] for row in again if row["type"] == "batch"]
    assert sequences == [0, 1, 0, 1]


def test_offsets_far_apart_and_at_the_end_of_what_there_is(tmp_path: Path) -> None:
    offsets = [3, 7, 500, 2_000_000_000, 3_000_000_000, (1 << 63) - 2]
    for magic in ("0", "1", "2"):
        for codec in ("none", "gzip"):
            data = lines(*({"value": "x", "offset": offset, "timestamp": 9} for offset in offsets))
            folder = tmp_path / f"{magic}-{codec}"
            options = ("--magic", magic, "--compression", codec)
            again = built(folder, data, *options)
            assert [row["offset"] for row in again if row["type"] == "record"] == offsets
            assert len(list((folder / "out").glob("*.log"))) == 3


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + b'{"value":"a"}\r\n{"value":"b"}\r\n'
    records = [row for row in built(tmp_path, data) if row["type"] == "record"]
    assert [row["value"] for row in records] == ["a", "b"]


def test_mixed_magic_in_one_segment(tmp_path: Path) -> None:
    dumped = kfmt("dump", UPGRADED, "--records", "--json")
    again = built(tmp_path, dumped.out.encode())
    assert {row["magic"] for row in again if row["type"] == "batch"} == {0, 1, 2}


def usage_of(*arguments: str | Path) -> tuple[float, int]:
    """The seconds of CPU and the most KiB of memory that one run of kfmt takes."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    command = [sys.executable, "-c", code, sys.executable, "-m", "kfmt_cli", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, check=True, env=environment(), cwd=ROOT, timeout=300
    )
    seconds, memory = done.stdout.split()
    return float(seconds), int(memory)


def test_one_large_batch_takes_time_and_memory_in_proportion(tmp_path: Path) -> None:
    n, size = 200_000, 250
    source = tmp_path / "lines"
    line = '{"key":"%08d","value":"' + "v" * (size - 30) + '"}\n'
    source.write_text("".join(line % i for i in range(n)))
    many, one = tmp_path / "many", tmp_path / "one"
    limits = ("--batch-bytes", "1G", "--batch-records")
    seconds, memory = usage_of("build", source, many, *limits, "1000")
    at_once, peak = usage_of("build", source, one, *limits, str(n))
    assert at_once < 2 * seconds + 1
    log = one / "00000000000000000000.log"
    assert log.stat().st_size > n * (size - 20)
    assert (peak - memory) << 10 < 2.5 * log.stat().st_size
    _, checked = usage_of("verify-crc", log)
    _, dumped = usage_of("dump", log, "--records", "--json")
    assert (dumped - checked) << 10 < 2 * log.stat().st_size
