"""dump → build → dump is the identity; what options and hand-made lines make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.samples import UPGRADED, Row, every_log, kfmt, name_of

LOGS = [log for log in every_log() if log.suffix == ".log" and log.stat().st_size]
# They follow from how the codec's library compresses.
DERIVED = ("file", "position", "batch_position", "size", "batch_length", "crc")


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
    return b"".join(json.dumps(it).encode() + b"\n" for it in given)


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
    assert [it["value"] for it in records[2]["headers"]] == [None, "", None]
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
        return sorted(int(it.name[:20]) for it in (tmp_path / name / "out").glob("*.log"))

    one_each = ("--batch-records", "1")
    same = [{"value": "x" * 1000, "timestamp": 5} for _ in range(10)]
    size = bases("size", lines(*same), *one_each, "--segment-bytes", "3300")
    assert size == [0, 3, 6, 9]
    day = 86_400_000
    aged = [{"value": "x", "timestamp": i * day} for i in range(20)]
    assert bases("age", lines(*aged), *one_each) == [0, 8, 16]
    assert bases("ms", lines(*aged), *one_each, "--segment-ms", str(3 * day)) == [0, 4, 8, 12, 16]
    far = [
        {"value": "x", "timestamp": 5, "offset": it} for it in (7, 8, (1 << 31) + 6, 1 << 31 | 7)
    ]
    assert bases("far", lines(*far), *one_each) == [7, (1 << 31) + 7]
    index = bases(
        "index",
        lines(*same),
        *(*one_each, "--segment-index-bytes", "36", "--index-interval-bytes", "1"),
    )
    assert index == [0, 5]  # four entries: the second to the fifth batch


def test_log_append_time_is_one_time_a_batch(tmp_path: Path) -> None:
    data = lines(*({"value": "x", "timestamp": it} for it in (5, 5, 6, 7, 7)))
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
    assert "1 line that say" in done.err or "1 line" in done.err
    assert "another records_count" in done.err
    again = rows(tmp_path / "out")
    assert again[0]["records_count"] == 21
    assert again[1]["value"] == "edited"
    assert again[-1]["offset"] == again[0]["last_offset"] == 20


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"value":1}\n', "line 1: Expected `str | null`, got `int` - at `$.value`"),
        (b'{"value":"a"}\n\n{"value":\n', "line 3"),
        (b"[]\n", "line 1: Expected `object`, got `array`"),
        (b'{"type":"batch","records_count":3}\n', "dump with --records"),
        (b'{"type":"offset_index_entry"}\n', "only batches and records"),
        (b'{"value":"zz","value_encoding":"base64"}\n', "no base64"),
        (b'{"value":"a","value_encoding":"utf8-replaced"}\n', "cannot be turned back"),
        (b'{"value":"a","offset":99999999999999999999}\n', "offset"),
        (b'{"control":{"type":"NONSENSE"}}\n', "NONSENSE"),
        (b'{"value":"a","timestamp_type":"Never"}\n', "Never"),
        (b'{"type":"batch","magic":3}\n{"value":"a"}\n', "magic 3"),
        (
            b'{"type":"batch","magic":1}\n{"value":"a","headers":[{"key":"k"}]}\n',
            "have no headers",
        ),
        (b'{"type":"batch","base_offset":9}\n{"value":"a","offset":3}\n', "before its base_offset"),
        (b'{"type":"batch","attributes":{"raw":5}}\n', "codec 5 does not exist"),
        (b'{"type":"batch","attributes":{"raw":65536}}\n', "do not fit into 16 bits"),
        (
            b'{"control":{"type":"COMMIT","coordinator_epoch":99999999999},"producer_id":7}\n',
            "too large",
        ),
        (b'{"value":"a","file":"a\\u0000b/00000000000000000000.log"}\n', "is no name of a file"),
        (b'{"value":"a","transactional":true}\n', "of no producer"),
        (b"", "no record in it"),
        (b'{"value":"a","offset":-5}\n', "offset -5 is negative"),
    ],
)
def test_what_cannot_be_built_is_said_and_nothing_appears(
    data: bytes, words: str, tmp_path: Path
) -> None:
    done = kfmt("build", "-", tmp_path / "out", stdin=data)
    assert done.code == 3
    assert words in done.err
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_kept_without_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kfmt("build", "-", out, stdin=b'{"value":"first"}\n').code == 0
    refused = kfmt("build", "-", out, stdin=b'{"value":"second"}\n')
    assert refused.code == 2
    assert "--force" in refused.err
    assert rows(out)[1]["value"] == "first"
    assert kfmt("build", "-", out, "--force", stdin=b'{"value":"second"}\n').code == 0
    assert rows(out)[1]["value"] == "second"
    assert not list(tmp_path.rglob(".kfmt*"))


def test_offsets_far_apart_and_at_the_end_of_what_there_is(tmp_path: Path) -> None:
    offsets = [3, 7, 500, 2_000_000_000, 3_000_000_000, (1 << 63) - 2]
    for magic in ("0", "1", "2"):
        for codec in ("none", "gzip"):
            data = lines(*({"value": "x", "offset": it, "timestamp": 9} for it in offsets))
            folder = tmp_path / f"{magic}-{codec}"
            options = ("--magic", magic, "--compression", codec)
            again = built(folder, data, *options)
            assert [row["offset"] for row in again if row["type"] == "record"] == offsets
            assert len(list((folder / "out").glob("*.log"))) == 3


@pytest.mark.parametrize("file", ["../{}", "/{}", "a/../{}", "./{}", "../../x/../{}"])
def test_nothing_is_written_or_moved_outside_of_the_target(file: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "important.txt").write_text("mine")
    name = file.format("00000000000000000003.log")
    data = lines({"value": "x", "file": name, "offset": 3})
    for more in (b"", lines({"value": "y", "file": "a-0/00000000000000000000.log", "offset": 0})):
        done = kfmt("build", "-", home / "out", "--force", stdin=data + more)
        assert done.code == 0, done.err
        assert {it.name for it in home.iterdir()} == {"important.txt", "out"}
        assert {it.name for it in tmp_path.iterdir()} == {"home"}
    assert (home / "important.txt").read_text() == "mine"


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + b'{"value":"a"}\r\n{"value":"b"}\r\n'
    records = [row for row in built(tmp_path, data) if row["type"] == "record"]
    assert [row["value"] for row in records] == ["a", "b"]


def test_mixed_magic_in_one_segment(tmp_path: Path) -> None:
    dumped = kfmt("dump", UPGRADED, "--records", "--json")
    again = built(tmp_path, dumped.out.encode())
    assert {row["magic"] for row in again if row["type"] == "batch"} == {0, 1, 2}
