"""A selection of records means the same in every command that has its options."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, TXN, UPGRADED, Row, kfmt
from tools.kafka import SAMPLES

PARTITION = ORDERS.parent
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


def cat_offsets(*arguments: str | Path) -> list[int]:
    return [int(line) for line in kfmt("cat", *arguments, "-f", "%o\\n").out.splitlines()]


@pytest.mark.parametrize("options", SELECTIONS, ids=" ".join)
@pytest.mark.parametrize(
    "directory",
    [
        *(PARTITION, SAMPLES / "kafka-3.9.1-broker1/codec-zstd-0"),
        *(SAMPLES / "kafka-2.8.2" / name for name in ("v1-gzip-0", "upgraded-0")),
    ],
    ids=lambda path: path.name,
)
def test_every_command_takes_the_same_records(
    options: tuple[str, ...], directory: Path, tmp_path: Path
) -> None:
    expected = cat_offsets(directory, *options)
    assert expected or directory != PARTITION
    rows = kfmt("dump", directory, *options, "--records", "--json").of("record")
    assert [row["offset"] for row in rows] == expected
    (stat,) = kfmt("stat", directory, *options, "--json").of("stat")
    assert stat["records"] == len(expected)
    if expected:
        assert (stat["first_offset"], stat["last_offset"]) == (expected[0], expected[-1])
    matches = kfmt("find", directory, *options, "--json").of("found")
    assert [row["offset"] for row in matches] == expected
    pytest.importorskip("pyarrow")
    result = kfmt("export", directory, "--to", tmp_path / "out", "--format", "json", *options)
    assert result.code == 0, result.err
    lines = [
        json.loads(line)
        for file in sorted((tmp_path / "out").rglob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    exported = [line["offset"] for line in lines if line["type"] == "record"]
    assert exported == expected


@pytest.mark.parametrize("directory", [TXN.parent, SAMPLES / "kafka-3.9.1-live/txn-0"])
@pytest.mark.parametrize("options", [(), ("--key", "~a"), ("--from-offset", "400")])
def test_every_command_omits_what_consumers_do_not_receive(
    options: tuple[str, ...], directory: Path, tmp_path: Path
) -> None:
    n_all = len(cat_offsets(directory, *options))
    options = ("--isolation", "read_committed", *options)
    test_every_command_takes_the_same_records(options, directory, tmp_path)
    assert len(cat_offsets(directory, *options)) < n_all or not n_all
    batches = kfmt("dump", directory, *options, "--json").of("batch")
    assert not any(row["attributes"]["control"] for row in batches)
    assert len(batches) < len(kfmt("dump", directory, "--json").of("batch"))


@pytest.mark.parametrize("command", ["find", "cat", "dump"])
def test_the_last_of_a_key_is_the_last_of_that_key(command: str) -> None:
    options = ("--key", "customer-7", "--last", "1")
    if command == "cat":
        assert cat_offsets(PARTITION, *options) == [1457]
        return
    row_options = ("--records",) if command == "dump" else ()
    result = kfmt(command, PARTITION, *options, *row_options, "--json")
    rows = [row for row in result.rows if row["type"] in ("found", "record")]
    assert (result.code, [row["offset"] for row in rows]) == (0, [1457])


@pytest.mark.parametrize("n", [1, 7, 40, 10_000])
@pytest.mark.parametrize(
    "options", [*SELECTIONS[:10], ("--isolation", "read_committed")], ids=" ".join
)
@pytest.mark.parametrize("directory", [PARTITION, TXN.parent], ids=lambda path: path.name)
def test_the_last_ones_are_counted_after_the_other_filters(
    directory: Path, options: tuple[str, ...], n: int
) -> None:
    offsets = cat_offsets(directory, *options)
    assert cat_offsets(directory, *options, "--last", str(n)) == offsets[-n:]


def test_the_last_records_of_each_partition() -> None:
    partitions = sorted((SAMPLES / "kafka-3.9.1-broker1").glob("codec-*-0"))
    rows = kfmt("stat", *partitions, "--last", "5", "--by", "partition", "--json").of("stat")
    assert [row["records"] for row in rows] == [5] * len(partitions)
    matches = kfmt("find", *partitions, "--last", "5", "--json").of("found")
    assert [row["offset"] for row in matches] == cat_offsets(*partitions, "--last", "5")
    for command in ("find", "stat"):
        result = kfmt(command, "-", "--last", "5", stdin=b"")
        assert result.code != 0
        assert "-" in result.err


def test_a_selection_is_what_a_filter_of_all_records_is() -> None:
    all_records = [row for log in sorted(PARTITION.glob("*.log")) for row in records(log)]
    with_key = [row["offset"] for row in all_records if row["key"] == "customer-1"]
    assert cat_offsets(PARTITION, "--key", "customer-1") == with_key
    with_hazel = [row["offset"] for row in all_records if "hazel" in (row["value"] or "")]
    assert cat_offsets(PARTITION, "--value", "~hazel") == with_hazel
    with_header = [
        row for row in all_records if any(item["key"] == "trace-id" for item in row["headers"])
    ]
    assert cat_offsets(PARTITION, "--header", "trace-id") == [row["offset"] for row in with_header]


def test_batches_with_a_matching_record_are_shown_with_that_record_only() -> None:
    result = kfmt("dump", PARTITION, "--key", "customer-1", "--json")
    batches, matches = result.of("batch"), result.of("record")
    assert {row["key"] for row in matches} == {"customer-1"}
    ranges = [(row["base_offset"], row["last_offset"]) for row in batches]
    assert all(any(a <= row["offset"] <= b for a, b in ranges) for row in matches)
    assert all(any(a <= row["offset"] <= b for row in matches) for a, b in ranges)


def test_typed_patterns(tmp_path: Path) -> None:
    lines = [
        {"type": "record", "offset": 0, "key": "00000005", "key_encoding": "hex", "value": "int"},
        {"type": "record", "offset": 1, "key": "5", "value": "text"},
        {"type": "record", "offset": 2, "key": "~5", "value": "tilde"},
        {"type": "record", "offset": 3, "key": "0" * 15 + "7", "key_encoding": "hex", "value": "l"},
    ]
    (tmp_path / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    directory = tmp_path / "typed-0"
    assert kfmt("build", tmp_path / "lines", directory).code == 0
    for pattern, offset in (("int:5", 0), ("5", 1), ("text:~5", 2), ("long:7", 3)):
        assert cat_offsets(directory, "--key", pattern) == [offset], pattern
    for pattern, message in (
        ("int:x", "'x' is not int"),
        ("uuid:5", "'5' is not uuid"),
        ("~(", "not a regular expression"),
    ):
        result = kfmt("cat", directory, "--key", pattern)
        assert result.code == 2
        assert message in result.err


@pytest.mark.parametrize(
    "log",
    [
        *(PARTITION, TXN.parent, UPGRADED.parent),
        *(SAMPLES / "kafka-2.8.2" / name for name in ("v1-lz4-0", "v0-gzip-0", "v1-compacted-0")),
    ],
    ids=lambda path: path.name,
)
@pytest.mark.parametrize("n", [1, 7, 30, 100_000])
def test_the_last_records(log: Path, n: int) -> None:
    offsets = cat_offsets(log)
    assert cat_offsets(log, "--last", str(n)) == offsets[-n:]
    rows = kfmt("dump", log, "--last", str(n), "--records", "--json").of("record")
    assert [row["offset"] for row in rows if "control" not in row] == offsets[-n:]


def test_the_last_records_of_logs_that_are_named_one_by_one() -> None:
    logs = sorted(PARTITION.glob("*.log"))
    for command in (("dump", "--records"), ("cat",)):
        result = kfmt(*command, *logs, "--last", "2", "--json")
        rows = [json.loads(line) for line in result.out.splitlines()]
        assert [row["offset"] for row in rows if "offset" in row] == [1498, 1499]


def test_a_copy_of_a_log_does_not_hide_it(tmp_path: Path) -> None:
    copy = tmp_path / "orders-0" / f"{ORDERS.name}.deleted"
    copy.parent.mkdir()
    for path in (copy, copy.with_suffix("")):
        path.write_bytes(ORDERS.read_bytes())
    result = kfmt("dump", copy.with_suffix(""), copy, "--from-offset", "0", "--json")
    assert len({row["file"] for row in result.of("batch")}) == 2
    last = kfmt("dump", copy.with_suffix(""), copy, "--last", "240", "--json")
    assert len({row["file"] for row in last.of("batch")}) >= 1


def test_times_before_now() -> None:
    now = round(time.time() * 1000)
    for text, seconds in (("now", 0), ("now-90s", 90), ("now-2h", 7200), ("now-1d", 86400)):
        result = kfmt("dump", PARTITION, "--from-time", text, "--records", "--json")
        assert (result.code, result.rows) == (0, []), f"{text}: {now - 1000 * seconds}"
    result = kfmt("dump", PARTITION, "--to-time", "now", "--records", "--json")
    assert len(result.of("record")) == 1500
    result = kfmt("cat", PARTITION, "--from-time", "yesterday")
    assert result.code == 2
    assert "--from-time 'yesterday': not a valid time" in result.err


def test_json_of_cat_is_that_of_kcat() -> None:
    result = kfmt("cat", PARTITION, "--from-offset", "50", "--limit", "3", "--json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    stored = records(ORDERS)[50:53]
    for row, record in zip(rows, stored, strict=True):
        assert list(row)[:6] == ["topic", "partition", "offset", "tstype", "ts", "broker"]
        assert (row["topic"], row["partition"], row["tstype"]) == ("orders", 0, "create")
        assert (row["offset"], row["ts"]) == (record["offset"], record["timestamp"])
        assert (row["key"], row["payload"]) == (record["key"], record["value"])
        pairs = row.get("headers", [])
        assert pairs[::2] == [item["key"] for item in record["headers"]]


def test_segments_outside_of_the_requested_offsets_are_not_shown() -> None:
    result = kfmt("dump", PARTITION, "--from-offset", "700", "--to-offset", "730")
    assert result.out.count("batches shown") + result.out.count("batch shown") == 2
    assert "0 batches shown" not in result.out


@pytest.mark.parametrize("suffix", ["delete", "stray", "future"])
def test_directories_that_a_broker_has_marked_are_skipped(suffix: str, tmp_path: Path) -> None:
    """They are copies or unserved: a topic would be counted, and replayed, twice."""
    marked_directory = tmp_path / f"orders-0.{'0a' * 16}-{suffix}"
    for directory in (tmp_path / "orders-0", marked_directory):
        shutil.copytree(PARTITION, directory)
    message = f"1 directory marked -{suffix} skipped; name one as PATH to read it"
    result = kfmt("cat", tmp_path, "-f", "%o\\n")
    assert (len(result.out.splitlines()), result.code) == (1500, 0)
    assert f"{tmp_path}: {message}" in result.err
    (row,) = kfmt("stat", tmp_path, "--by", "topic", "--json").of("stat")
    assert row["records"] == 1500
    assert len(kfmt("find", tmp_path, "--offset", "3", "--json").of("found")) == 1
    assert len(kfmt("retention", tmp_path, "--json").of("retention")) == 7
    pytest.importorskip("pyarrow")
    result = kfmt("export", tmp_path, "--to", tmp_path.with_suffix(".out"))
    assert "1 500 records" in result.out
    assert message in result.err
    for path in (marked_directory, marked_directory / ORDERS.name):
        assert kfmt("cat", path, "--limit", "2", "-f", "%o\\n").out == "0\n1\n"
        assert kfmt("stat", path, "--json").of("stat")[0]["topic"] == "orders"
    files = {row["file"] for row in kfmt("dump", tmp_path, "--json").of("batch")}
    assert any(suffix in file for file in files)


def test_snapshots_of_the_metadata_log_do_not_take_part(tmp_path: Path) -> None:
    """They repeat the contents of the log, at other offsets."""
    broker = SAMPLES / "kafka-3.9.1-broker1"
    directory = broker / "__cluster_metadata-0"
    expected = cat_offsets(directory, "--last", "5")
    rows = kfmt("dump", directory, "--records", "--last", "5", "--json").of("record")
    assert [row["offset"] for row in rows if "control" not in row][-5:] == expected
    assert len(rows) <= 6
    pytest.importorskip("pyarrow")
    (stat,) = kfmt("stat", directory, "--json").of("stat")
    result = kfmt("export", broker, "--to", tmp_path / "out", "--format", "json")
    assert "KRaft snapshots: records in the table snapshot_records" in result.err
    lines = [
        json.loads(line)
        for file in (tmp_path / "out/records").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    exported = [
        row for row in lines if row["type"] == "record" and row["topic"] == "__cluster_metadata"
    ]
    assert len(exported) == stat["records"]
