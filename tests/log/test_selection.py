"""What is wanted of a log means the same in every command that takes it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, TXN, UPGRADED, Row, kfmt
from tools.kafka import SAMPLES

FOLDER = ORDERS.parent
SELECTIONS = [
    ("--key", "customer-1"),
    ("--key", "~customer-[1-3]$"),
    ("--key", "hex:637573746f6d65722d31"),
    ("--value", "~hazel"),
    ("--header", "trace-id"),
    ("--header", "trace-id=00000033"),
    ("--header", "trace-id=~^0+3"),
    ("--from-offset", "700", "--to-offset", "731"),
    ("--from-time", "2023-11-14T22:20", "--to-time", "2023-11-14T22:21:30"),
    ("--from-time", "2023-11-14T22:20", "--key", "~customer-4"),
    ("--last", "7"),
    ("--last", "300", "--key", "~customer-[1-3]$"),
    ("--isolation", "read_committed"),
]


def records(log: Path) -> list[Row]:
    return kfmt("dump", log, "--records", "--json").of("record")


def offsets_of_cat(*arguments: str | Path) -> list[int]:
    return [int(line) for line in kfmt("cat", *arguments, "-f", "%o\\n").out.splitlines()]


@pytest.mark.parametrize("options", SELECTIONS, ids=" ".join)
@pytest.mark.parametrize(
    "folder",
    [
        *(FOLDER, SAMPLES / "kafka-3.9.1-broker1/codec-zstd-0"),
        *(SAMPLES / "kafka-2.8.2" / name for name in ("v1-gzip-0", "upgraded-0")),
    ],
    ids=lambda path: path.name,
)
def test_every_command_takes_the_same_records(
    options: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    wanted = offsets_of_cat(folder, *options)
    assert wanted or folder != FOLDER
    rows = kfmt("dump", folder, *options, "--records", "--json").of("record")
    assert [row["offset"] for row in rows] == wanted
    (numbers,) = kfmt("stat", folder, *options, "--json").of("stat")
    assert numbers["records"] == len(wanted)
    if wanted:
        assert (numbers["first_offset"], numbers["last_offset"]) == (wanted[0], wanted[-1])
    found = kfmt("find", folder, *options, "--json").of("found")
    assert [row["offset"] for row in found] == wanted
    pytest.importorskip("pyarrow")
    done = kfmt("export", folder, "--to", tmp_path / "out", "--format", "json", *options)
    assert done.code == 0, done.err
    lines = [
        json.loads(line)
        for file in sorted((tmp_path / "out").rglob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    exported = [line["offset"] for line in lines if line["type"] == "record"]
    assert exported == wanted


@pytest.mark.parametrize("folder", [TXN.parent, SAMPLES / "kafka-3.9.1-live/txn-0"])
@pytest.mark.parametrize("options", [(), ("--key", "~a"), ("--from-offset", "400")])
def test_every_command_leaves_out_what_consumers_are_not_given(
    options: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    everything = len(offsets_of_cat(folder, *options))
    options = ("--isolation", "read_committed", *options)
    test_every_command_takes_the_same_records(options, folder, tmp_path)
    assert len(offsets_of_cat(folder, *options)) < everything or not everything
    batches = kfmt("dump", folder, *options, "--json").of("batch")
    assert not any(row["attributes"]["control"] for row in batches)
    assert len(batches) < len(kfmt("dump", folder, "--json").of("batch"))


@pytest.mark.parametrize("command", ["find", "cat", "dump"])
def test_the_last_of_a_key_is_the_last_of_that_key(command: str) -> None:
    options = ("--key", "customer-7", "--last", "1")
    if command == "cat":
        assert offsets_of_cat(FOLDER, *options) == [1457]
        return
    more = ("--records",) if command == "dump" else ()
    done = kfmt(command, FOLDER, *options, *more, "--json")
    rows = [row for row in done.rows if row["type"] in ("found", "record")]
    assert (done.code, [row["offset"] for row in rows]) == (0, [1457])


@pytest.mark.parametrize("number", [1, 7, 40, 10_000])
@pytest.mark.parametrize(
    "options", [*SELECTIONS[:10], ("--isolation", "read_committed")], ids=" ".join
)
@pytest.mark.parametrize("folder", [FOLDER, TXN.parent], ids=lambda path: path.name)
def test_the_last_ones_are_counted_after_the_other_filters(
    folder: Path, options: tuple[str, ...], number: int
) -> None:
    every = offsets_of_cat(folder, *options)
    assert offsets_of_cat(folder, *options, "--last", str(number)) == every[-number:]


def test_the_last_records_of_each_partition() -> None:
    parts = sorted((SAMPLES / "kafka-3.9.1-broker1").glob("codec-*-0"))
    rows = kfmt("stat", *parts, "--last", "5", "--by", "partition", "--json").of("stat")
    assert [row["records"] for row in rows] == [5] * len(parts)
    found = kfmt("find", *parts, "--last", "5", "--json").of("found")
    assert [row["offset"] for row in found] == offsets_of_cat(*parts, "--last", "5")
    for command in ("find", "stat"):
        done = kfmt(command, "-", "--last", "5", stdin=b"")
        assert done.code != 0
        assert "-" in done.err


def test_a_selection_is_what_a_filter_of_all_records_is() -> None:
    every = [row for log in sorted(FOLDER.glob("*.log")) for row in records(log)]
    keyed = [row["offset"] for row in every if row["key"] == "customer-1"]
    assert offsets_of_cat(FOLDER, "--key", "customer-1") == keyed
    hazel = [row["offset"] for row in every if "hazel" in (row["value"] or "")]
    assert offsets_of_cat(FOLDER, "--value", "~hazel") == hazel
    of_2 = [row for row in every if any(item["key"] == "trace-id" for item in row["headers"])]
    assert offsets_of_cat(FOLDER, "--header", "trace-id") == [row["offset"] for row in of_2]


def test_batches_with_a_wanted_record_are_shown_with_it_alone() -> None:
    done = kfmt("dump", FOLDER, "--key", "customer-1", "--json")
    batches, found = done.of("batch"), done.of("record")
    assert {row["key"] for row in found} == {"customer-1"}
    spans = [(row["base_offset"], row["last_offset"]) for row in batches]
    assert all(any(a <= row["offset"] <= b for a, b in spans) for row in found)
    assert all(any(a <= row["offset"] <= b for row in found) for a, b in spans)


def test_typed_patterns(tmp_path: Path) -> None:
    lines = [
        {"type": "record", "offset": 0, "key": "00000005", "key_encoding": "hex", "value": "int"},
        {"type": "record", "offset": 1, "key": "5", "value": "text"},
        {"type": "record", "offset": 2, "key": "~5", "value": "tilde"},
        {"type": "record", "offset": 3, "key": "0" * 15 + "7", "key_encoding": "hex", "value": "l"},
    ]
    (tmp_path / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    folder = tmp_path / "typed-0"
    assert kfmt("build", tmp_path / "lines", folder).code == 0
    for pattern, offset in (("int:5", 0), ("5", 1), ("text:~5", 2), ("long:7", 3)):
        assert offsets_of_cat(folder, "--key", pattern) == [offset], pattern
    for pattern, words in (
        ("int:x", "'x' is not int"),
        ("uuid:5", "'5' is not uuid"),
        ("~(", "not a regular expression"),
    ):
        done = kfmt("cat", folder, "--key", pattern)
        assert done.code == 2
        assert words in done.err


@pytest.mark.parametrize(
    "log",
    [
        *(FOLDER, TXN.parent, UPGRADED.parent),
        *(SAMPLES / "kafka-2.8.2" / name for name in ("v1-lz4-0", "v0-gzip-0", "v1-compacted-0")),
    ],
    ids=lambda path: path.name,
)
@pytest.mark.parametrize("number", [1, 7, 30, 100_000])
def test_the_last_records(log: Path, number: int) -> None:
    every = offsets_of_cat(log)
    assert offsets_of_cat(log, "--last", str(number)) == every[-number:]
    rows = kfmt("dump", log, "--last", str(number), "--records", "--json").of("record")
    assert [row["offset"] for row in rows if "control" not in row] == every[-number:]


def test_the_last_records_of_logs_that_are_given_one_by_one() -> None:
    logs = sorted(FOLDER.glob("*.log"))
    for command in (("dump", "--records"), ("cat",)):
        done = kfmt(*command, *logs, "--last", "2", "--json")
        rows = [json.loads(line) for line in done.out.splitlines()]
        assert [row["offset"] for row in rows if "offset" in row] == [1498, 1499]


def test_a_copy_of_a_log_does_not_hide_it(tmp_path: Path) -> None:
    copy = tmp_path / "orders-0" / f"{ORDERS.name}.deleted"
    copy.parent.mkdir()
    for path in (copy, copy.with_suffix("")):
        path.write_bytes(ORDERS.read_bytes())
    done = kfmt("dump", copy.with_suffix(""), copy, "--from-offset", "0", "--json")
    assert len({row["file"] for row in done.of("batch")}) == 2
    last = kfmt("dump", copy.with_suffix(""), copy, "--last", "240", "--json")
    assert len({row["file"] for row in last.of("batch")}) >= 1


def test_times_before_now() -> None:
    now = round(time.time() * 1000)
    for text, back in (("now", 0), ("now-90s", 90), ("now-2h", 7200), ("now-1d", 86400)):
        done = kfmt("dump", FOLDER, "--from-time", text, "--records", "--json")
        assert (done.code, done.rows) == (0, []), f"{text}: {now - 1000 * back}"
    done = kfmt("dump", FOLDER, "--to-time", "now", "--records", "--json")
    assert len(done.of("record")) == 1500
    done = kfmt("cat", FOLDER, "--from-time", "yesterday")
    assert done.code == 2
    assert "--from-time 'yesterday': not a valid time" in done.err


def test_json_of_cat_is_that_of_kcat() -> None:
    done = kfmt("cat", FOLDER, "--from-offset", "50", "--limit", "3", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    stored = records(ORDERS)[50:53]
    for row, record in zip(rows, stored, strict=True):
        assert list(row)[:6] == ["topic", "partition", "offset", "tstype", "ts", "broker"]
        assert (row["topic"], row["partition"], row["tstype"]) == ("orders", 0, "create")
        assert (row["offset"], row["ts"]) == (record["offset"], record["timestamp"])
        assert (row["key"], row["payload"]) == (record["key"], record["value"])
        pairs = row.get("headers", [])
        assert pairs[::2] == [item["key"] for item in record["headers"]]


def test_segments_outside_of_the_asked_offsets_are_not_shown() -> None:
    done = kfmt("dump", FOLDER, "--from-offset", "700", "--to-offset", "730")
    assert done.out.count("batches shown") + done.out.count("batch shown") == 2
    assert "0 batches shown" not in done.out


@pytest.mark.parametrize("mark", ["delete", "stray", "future"])
def test_directories_that_a_broker_has_marked_are_left_out(mark: str, tmp_path: Path) -> None:
    """They are copies, or set aside: a topic would be counted, and replayed, twice."""
    marked = tmp_path / f"orders-0.{'0a' * 16}-{mark}"
    for folder in (tmp_path / "orders-0", marked):
        shutil.copytree(FOLDER, folder)
    words = f"1 directory marked -{mark} skipped; name one as PATH to read it"
    done = kfmt("cat", tmp_path, "-f", "%o\\n")
    assert (len(done.out.splitlines()), done.code) == (1500, 0)
    assert f"{tmp_path}: {words}" in done.err
    (row,) = kfmt("stat", tmp_path, "--by", "topic", "--json").of("stat")
    assert row["records"] == 1500
    assert len(kfmt("find", tmp_path, "--offset", "3", "--json").of("found")) == 1
    assert len(kfmt("retention", tmp_path, "--json").of("retention")) == 7
    pytest.importorskip("pyarrow")
    done = kfmt("export", tmp_path, "--to", tmp_path.with_suffix(".out"))
    assert "1 500 records" in done.out
    assert words in done.err
    for named in (marked, marked / ORDERS.name):
        assert kfmt("cat", named, "--limit", "2", "-f", "%o\\n").out == "0\n1\n"
        assert kfmt("stat", named, "--json").of("stat")[0]["topic"] == "orders"
    every = {row["file"] for row in kfmt("dump", tmp_path, "--json").of("batch")}
    assert any(mark in file for file in every)


def test_snapshots_of_the_metadata_log_do_not_take_part(tmp_path: Path) -> None:
    """They have what the log has, at offsets of their own."""
    broker = SAMPLES / "kafka-3.9.1-broker1"
    folder = broker / "__cluster_metadata-0"
    wanted = offsets_of_cat(folder, "--last", "5")
    rows = kfmt("dump", folder, "--records", "--last", "5", "--json").of("record")
    assert [row["offset"] for row in rows if "control" not in row][-5:] == wanted
    assert len(rows) <= 6
    pytest.importorskip("pyarrow")
    (numbers,) = kfmt("stat", folder, "--json").of("stat")
    done = kfmt("export", broker, "--to", tmp_path / "out", "--format", "json")
    assert "KRaft snapshots: records in the table snapshot_records" in done.err
    lines = [
        json.loads(line)
        for file in (tmp_path / "out/records").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    ours = [
        row for row in lines if row["type"] == "record" and row["topic"] == "__cluster_metadata"
    ]
    assert len(ours) == numbers["records"]
