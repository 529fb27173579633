"""The work of tasks, without Spark: splits, tables, damage."""

from __future__ import annotations

import os
import shutil
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import positions
from tests.support.spark_rows import dumped, make_unlistable, record_keys, with_index
from tools.kafka import ROOT, SAMPLES

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

from kfmt_cli.arrow.input_files import list_input_files  # noqa: E402
from kfmt_cli.core.source import FileSource  # noqa: E402
from kfmt_cli.errors import InputError, UsageError  # noqa: E402
from kfmt_cli.execution.read_request import ReadRequest  # noqa: E402
from kfmt_cli.execution.split_reader import DamagedError, UnreadableInputError  # noqa: E402
from kfmt_cli.rows.table_types import has_records  # noqa: E402
from kfmt_cli.spark.input_partition import KfmtInputPartition  # noqa: E402
from kfmt_cli.spark.partition_reader import read_input_partition  # noqa: E402
from kfmt_cli.spark.selections import plan_input_partitions as plan  # noqa: E402
from kfmt_cli.spark.source_options import parse_request  # noqa: E402

DIRECTORIES = sorted(path for path in SAMPLES.iterdir() if path.is_dir())


def request_for(*paths: Path, **options: str) -> ReadRequest:
    return replace(parse_request(options), paths=tuple(map(str, paths)))


def read_rows(
    request: ReadRequest, splits: list[KfmtInputPartition] | None = None
) -> Iterator[dict[str, Any]]:
    for split in plan(request) if splits is None else splits:
        for batch in read_input_partition(request, split):
            table = pa.Table.from_batches([batch])
            if "timestamp" in table.column_names and has_records(request.table):
                table = table.append_column("micros", table["timestamp"].cast(pa.int64()))
                table = table.drop_columns(["timestamp"])
            yield from table.to_pylist()


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda item: item.name)
@pytest.mark.parametrize("split", ["134217728", "50000", "4000"])
def test_records_are_those_of_dump_whatever_the_splits(directory: Path, split: str) -> None:
    request = request_for(directory, maxSplitBytes=split)
    assert record_keys(read_rows(request)) == dumped(directory)
    snapshots = replace(request, table="snapshot_records")
    assert record_keys(read_rows(snapshots)) == dumped(directory, suffix=".checkpoint")


@given(width=st.integers(300, 40_000))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_batch_belongs_to_one_split(width: int) -> None:
    logs = [ORDERS, TXN, SAMPLES / "kafka-3.9.1-broker1/codec-lz4-0/00000000000000000000.log"]
    for log in logs:
        request = request_for(log, table="batches", maxSplitBytes=str(width))
        actual = [row["position"] for row in read_rows(request)]
        expected = [row["position"] for row in read_rows(request_for(log, table="batches"))]
        assert actual == expected


def test_an_index_that_lies_is_not_believed(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / ORDERS.name
    log.parent.mkdir()
    shutil.copy(ORDERS, log)
    expected = record_keys(read_rows(request_for(log)))
    lies = [
        b"".join(struct.pack(">ii", i, 100 * i + 50) for i in range(1, 200)),
        b"".join(struct.pack(">ii", i, 2575 * i) for i in range(1, 20)),
        bytes(10_000),
        b"\xff" * 999,
    ]
    for lie in lies:
        log.with_suffix(".index").write_bytes(lie)
        for width in ("1000", "7000", "16000"):
            assert record_keys(read_rows(request_for(log, maxSplitBytes=width))) == expected


def test_damage_is_findings_and_the_rest_is_read() -> None:
    directory = ROOT / "damaged_segments"
    assert record_keys(read_rows(request_for(directory))) == dumped(directory, code=1)
    codes = {
        (Path(row["file"]).parent.name, row["code"])
        for row in read_rows(request_for(directory, table="findings"))
    }
    rows = kfmt("verify-crc", directory, "--json").of("finding")
    assert codes == {(Path(row["file"]).parent.name, row["code"]) for row in rows}
    with pytest.raises(DamagedError, match=r"0000\.log byte 7702: crc-mismatch"):
        list(read_rows(request_for(directory / "flipped-bit-0", mode="FAILFAST")))


def test_the_table_of_findings_looks_at_neighbours_across_splits(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    starts = positions(data)
    repeated = data[: starts[8]] + data[starts[4] :]
    log = with_index(tmp_path, repeated, repeated)
    (expected,) = kfmt("verify-crc", "--deep", log, "--json").of("finding")
    assert expected["code"] == "offsets-backwards"
    for width in ("1000", "5000", "20000"):
        (row,) = read_rows(request_for(log, table="findings", deep="true", maxSplitBytes=width))
        assert (row["position"], row["message"]) == (expected["position"], expected["message"])


def test_segments_are_those_of_verify_crc() -> None:
    directory = SAMPLES / "kafka-2.8.2"
    rows = list(read_rows(request_for(directory, table="segments")))
    files = kfmt("verify-crc", directory, "--json").of("file")
    names = ("bytes", "batches", "records", "errors")
    assert [[row[name] for name in names] for row in rows] == [
        [row[name] for name in names] for row in files
    ]
    mixed = next(row for row in rows if row["topic"] == "upgraded")
    assert mixed["magics"] == ["0", "1", "2"]
    assert set(mixed["codecs"]) == {"none", "gzip", "snappy", "lz4"}


def test_batches_have_the_fields_of_the_contract() -> None:
    rows = {row["position"]: row for row in read_rows(request_for(TXN, table="batches"))}
    for batch in kfmt("dump", TXN, "--json").rows:
        row = rows[batch["position"]]
        flat = {**batch, **batch["attributes"], "attributes": batch["attributes"]["raw"]}
        names = ["size", "magic", "base_offset", "last_offset", "crc", "crc_valid", "attributes"]
        names += ["compression", "transactional", "control", "records_count", "producer_id"]
        assert [row[name] for name in names] == [flat[name] for name in names]
        assert row["max_timestamp"].timestamp() == pytest.approx(batch["max_timestamp"] / 1000)
        assert row["crc_computed"] is None


def test_index_entries_are_those_of_dump() -> None:
    rows = list(read_rows(request_for(ORDERS.parent, table="index_entries")))
    first = [row for row in rows if row["file"] == str(ORDERS.with_suffix(".index"))]
    entries = kfmt("dump", ORDERS.with_suffix(".index"), "--json").rows
    names = ("position", "relative_offset", "offset", "log_position")
    assert [[row[n] for n in names] for row in first] == [
        [entry[n] for n in names] for entry in entries
    ]
    assert {row["kind"] for row in rows} == {"offset_index", "time_index"}


def test_bounds_topics_and_columns() -> None:
    directory = SAMPLES / "kafka-3.9.1-broker1"
    orders = {"topics": "orders", "columns": "offset,timestamp"}
    request = request_for(directory, **orders, startOffset="100", endOffset="259")
    assert [row["offset"] for row in read_rows(request)] == list(range(100, 260))
    record = next(read_rows(request))
    assert set(record) == {"offset", "micros"}
    all_records = dumped(ORDERS.parent)
    low, high = 1_700_000_050_000, 1_700_000_200_000
    expected = sorted(row[1] for row in all_records if low * 1000 <= (row[2] or 0) <= high * 1000)
    for start, end in ((str(low), str(high)), ("2023-11-14T22:14:10Z", "2023-11-14T22:16:40")):
        request = request_for(directory, **orders, firstTime=start, lastTime=end)
        assert sorted(row["offset"] for row in read_rows(request)) == expected


LEGACY = [
    *("upgraded-0", "v0-gzip-0", "v0-snappy-0", "v1-lz4-0", "v1-gzip-0", "v1-compacted-0"),
    "v1-appendtime-0",
]


@pytest.mark.parametrize("name", LEGACY)
def test_offset_bounds_in_wrappers_whose_first_offset_is_unknown(name: str) -> None:
    directory = SAMPLES / "kafka-2.8.2" / name
    logs = sorted(directory.glob("*.log"))
    offsets = [row["offset"] for row in read_rows(request_for(directory))]
    for first, last in ((150, 155), (0, 0), (7, 12), (offsets[-1] - 3, offsets[-1]), (99, 200)):
        bounds = {"first_offset": str(first), "lastOffset": str(last)}
        actual = [row["offset"] for row in read_rows(request_for(directory, **bounds))]
        assert actual == [offset for offset in offsets if first <= offset <= last]
        dump = kfmt("dump", *logs, "--json", "--from-offset", str(first), "--to-offset", str(last))
        batches = [
            row["position"] for row in read_rows(request_for(directory, table="batches", **bounds))
        ]
        assert batches == [row["position"] for row in dump.of("batch")]


@pytest.mark.parametrize("name", ["v1-lz4-0", "v0-gzip-0"])
def test_a_wrapper_that_says_offset_0_keeps_its_messages(name: str, tmp_path: Path) -> None:
    """librdkafka wrote such ones."""
    data = (SAMPLES / "kafka-2.8.2" / name / ORDERS.name).read_bytes()
    log = tmp_path / ORDERS.name
    log.write_bytes(bytes(8) + data[8 : positions(data)[1]])
    offsets = [row["offset"] for row in read_rows(request_for(log))]
    assert len(offsets) > 4
    assert [row["offset"] for row in read_rows(request_for(log, firstOffset="3"))] == offsets[3:]


@pytest.mark.parametrize("bound", ["startTime", "endTime"])
def test_what_has_no_timestamp_is_in_no_time(bound: str, tmp_path: Path) -> None:
    """Magic 0 has none; -1 means that there is none."""
    time = {"startTime": "-100", "endTime": "2100-01-01"}[bound]
    old = SAMPLES / "kafka-2.8.2/v0-none-0"
    lines = tmp_path / "without.jsonl"
    lines.write_text('{"key": "a", "value": "b", "timestamp": -1}\n')
    assert kfmt("build", lines, tmp_path / "without").code == 0
    for directory in (old, tmp_path / "without"):
        for table in ("records", "batches"):
            assert list(read_rows(request_for(directory, table=table)))
            assert list(read_rows(request_for(directory, table=table, **{bound: time}))) == []


def test_a_directory_whose_name_is_no_text(tmp_path: Path) -> None:
    directory = tmp_path / os.fsdecode(b"or\xffders-0")
    shutil.copytree(ORDERS.parent, directory)
    for table in ("records", "batches", "segments"):
        row = next(read_rows(request_for(tmp_path, table=table)))
        assert row["file"] == str(tmp_path) + r"/or\xffders-0/" + ORDERS.name
        assert (row["topic"], row["partition"]) == (r"or\xffders", 0)


def test_batch_rows_bound_the_arrow_batches() -> None:
    request = request_for(ORDERS.parent, batchRows="7")
    sizes = [
        len(batch) for split in plan(request) for batch in read_input_partition(request, split)
    ]
    assert max(sizes) == 7
    assert sum(sizes) == 1500


def test_the_last_records_of_each_directory() -> None:
    """The driver finds them; damage, wrappers and other directories do not matter."""
    for directory in (ORDERS.parent, SAMPLES / "kafka-2.8.2"):
        offsets_by_partition = defaultdict[tuple[str, int], list[int]](list)
        for row in kfmt("cat", directory, "-f", "%t %p %o\\n").out.splitlines():
            topic, partition, offset = row.split()
            offsets_by_partition[topic, int(partition)].append(int(offset))
        request = request_for(directory, last="3", columns="topic,partition,offset")
        rows = [tuple(row.values()) for row in read_rows(request)]
        expected = [
            (*key, offset)
            for key, offsets in offsets_by_partition.items()
            for offset in offsets[-3:]
        ]
        assert sorted(rows) == sorted(expected)


def test_read_committed_leaves_out_what_a_consumer_is_not_given() -> None:
    for directory in (TXN.parent, SAMPLES / "kafka-3.9.1-live/txn-0"):
        all_records = dumped(directory)
        actual = record_keys(read_rows(request_for(directory, isolation="read_committed")))
        aborted: set[object] = set()
        for index in directory.glob("*.txnindex"):
            for row in kfmt("dump", index, "--json").rows:
                aborted |= {
                    record[1]
                    for record in all_records
                    if record[7] == row["producer_id"]
                    and row["first_offset"] <= record[1] <= row["last_offset"]
                }
        expected = [record for record in all_records if not record[11] and record[1] not in aborted]
        if "live" in str(directory):
            # The fourth producer's transaction is open: nothing from its first offset on.
            assert actual == [record for record in expected if record[1] < 630]
            assert len(actual) == 360
        else:
            assert actual == expected
            assert len(actual) == 460


def test_files_that_change_between_planning_and_reading(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    data = ORDERS.read_bytes()
    for name in ("gone", "short", "long"):
        (directory / f"{name}.log").write_bytes(data)
    request = request_for(directory, table="findings", ignoreUnreadable="true")
    splits = plan(request)
    records = replace(request, table="records")
    (directory / "gone.log").unlink()
    (directory / "short.log").write_bytes(data[:20_000])
    (directory / "long.log").write_bytes(data + data[:3000])
    codes = {(Path(row["file"]).stem, row["code"]) for row in read_rows(request, splits)}
    assert {("gone", "file-vanished"), ("short", "file-shrank"), ("long", "file-grew")} <= codes
    assert ("long", "offsets-backwards") not in codes
    offsets = [row["offset"] for row in read_rows(records, splits) if "long" in row["file"]]
    assert offsets == list(range(240))
    with pytest.raises(DamagedError, match="file-vanished"):
        list(read_rows(replace(records, fail_fast=True), splits))


def test_a_file_that_grows_by_half_a_batch(tmp_path: Path) -> None:
    log = tmp_path / ORDERS.name
    data = ORDERS.read_bytes()
    log.write_bytes(data[:-500])
    request = request_for(log, table="findings")
    splits = plan(request)
    log.write_bytes(data)
    assert {row["code"] for row in read_rows(request, splits)} == {"file-grew"}


def test_planning_packs_small_files_and_cuts_big_ones(tmp_path: Path) -> None:
    for i in range(300):
        directory = tmp_path / f"t-{i}"
        directory.mkdir()
        (directory / ORDERS.name).write_bytes(b"")
    assert len(plan(request_for(tmp_path))) <= 10
    big = tmp_path / "t-0" / ORDERS.name
    with big.open("wb") as output:
        output.truncate(1 << 30)
    splits = plan(replace(request_for(tmp_path), parallelism=2))
    assert (
        len(
            [
                file_split
                for split in splits
                for file_split in split.splits
                if file_split.path == str(big)
            ]
        )
        == 8
    )
    assert len(list_input_files(request_for(tmp_path))) == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "nonsense"}, "no table 'nonsense'"),
        ({"columns": "offset,nonsense"}, "no column 'nonsense'"),
        ({"firstOffsets": "1"}, "no option 'firstoffsets'"),
        ({"startOffset": "x"}, "not a number"),
        ({"startTime": "yesterday"}, "not a valid time"),
        ({"mode": "DROPMALFORMED"}, "mode is 'DROPMALFORMED'"),
        ({"isolation": "serializable"}, "isolation"),
        ({"batchRows": "-1"}, "option batchRows is -1, not a number from 1 to"),
        ({"max_split_bytes": "0"}, "option maxSplitBytes is 0, not a number from 1 to"),
        ({"parallelism": "0"}, "parallelism is 0"),
        ({"last": "0"}, "last is 0"),
        ({"maxDecompressed": "-5"}, "maxDecompressed is -5"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger is 0"),
        ({"rowsPerTrigger": "none"}, "rowsPerTrigger is 'none', not a number"),
        ({"producerId": "-1"}, "producerId is -1, not a number from 0"),
        ({"firstOffset": "-1"}, "firstOffset is -1"),
        ({"lastOffset": str(1 << 63)}, "lastOffset is 9223372036854775808, not a number from 0"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss is 'yes', not true or false"),
        ({"ignoreUnreadable": "1"}, "ignoreUnreadable is '1', not false or true"),
        ({"columns": "offset,key,offset"}, "columns has 'offset' twice"),
        ({"columns": "offsets"}, "no column 'offsets'; did you mean offset"),
        ({"table": "record"}, "did you mean records"),
        ({"ignoreUnreadabel": "true"}, r"did you mean ignoreUnreadable\?"),
        ({"zzz": "1"}, "no option 'zzz'; choose from table, path"),
        ({"startOffset": "1", "firstOffset": "2"}, "firstOffset is given twice, as '1' and '2'"),
        ({"paths": "[]"}, "not a JSON list of at least one path"),
        ({"paths": "/a,/b"}, "not a JSON list"),
        ({"path": ""}, "'' is not a path"),
        ({"paths": '["/a", " "]'}, "' ' is not a path"),
    ],
)
def test_invalid_options_are_reported(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_request(options)


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(InputError, match="No such file"):
        plan(request_for(Path("/no/such/folder")))
    with pytest.raises(InputError):
        plan(replace(parse_request({}), paths=("nonsense://bucket/x",)))


TABLES = ("records", "batches", "segments", "index_entries", "findings")


@pytest.mark.parametrize("table", TABLES)
def test_an_input_that_cannot_be_read_ends_the_query(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it cannot be listed, opened, or read to its end: rows would be missing."""
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    suffix = ".index" if table == "index_entries" else ".log"
    unreadable = (directory / f"{480:020}.log").with_suffix(suffix)
    for width in ("134217728", "9000"):
        request = request_for(tmp_path, table=table, maxSplitBytes=width)
        splits = plan(request)
        data = unreadable.read_bytes()
        unreadable.unlink()
        with pytest.raises(
            UnreadableInputError, match=rf"{unreadable}: No such file.*; with .*ignoreUnreadable"
        ):
            list(read_rows(request, splits))
        ignoring = replace(request, raises_if_unreadable=False)
        assert list(read_rows(ignoring, splits)) or table == "findings"
        unreadable.write_bytes(data)
    unreadable.unlink()
    unreadable.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UnreadableInputError, match=rf"{unreadable}: links to .*nowhere"):
        plan(request_for(tmp_path, table=table))
    unreadable.unlink()
    unreadable.write_bytes(data)
    closed = tmp_path / "closed-0"
    closed.mkdir()
    make_unlistable(closed, monkeypatch)
    with pytest.raises(UnreadableInputError, match=rf"{closed}: Permission denied"):
        plan(request_for(tmp_path, table=table))


@pytest.mark.parametrize("options", [{}, {"last": "3"}, {"isolation": "read_committed"}])
def test_a_file_that_fails_in_the_middle_ends_the_query(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = TXN.parent / f"{635:020}.log"
    original_read = FileSource.read_block

    def fails(self: FileSource, position: int, length: int, min_length: int) -> bytes:
        if self.name == str(failing):
            raise InputError(f"{failing} byte {position}: Input/output error")
        return original_read(self, position, length, min_length)

    monkeypatch.setattr(FileSource, "read_block", fails)
    request = request_for(TXN.parent, maxSplitBytes="3000", **options)
    with pytest.raises(InputError, match="Input/output error"):
        list(read_rows(request))
    if not options:
        ignoring = list(read_rows(replace(request, raises_if_unreadable=False)))
        assert {row["offset"] for row in ignoring} == set(range(635))


def test_a_directory_that_cannot_be_read_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    closed = tmp_path / "lost+found"
    closed.mkdir()
    make_unlistable(closed, monkeypatch)
    ignoring = {"ignoreUnreadable": "true"}
    (row,) = read_rows(request_for(tmp_path, table="findings", **ignoring))
    assert (row["file"], row["code"]) == (str(closed), "directory-unreadable")
    for table, n in (("records", 1500), ("batches", 75), ("segments", 7)):
        assert len(list(read_rows(request_for(tmp_path, table=table, **ignoring)))) == n
        with pytest.raises(DamagedError, match=r"lost\+found: directory-unreadable"):
            list(read_rows(request_for(tmp_path, table=table, mode="FAILFAST")))
    with pytest.raises(InputError, match=r"lost\+found: Permission denied"):
        plan(request_for(closed))


def test_object_stores_are_read_through_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system of Arrow's other than the local one, with a scheme of its own."""
    from pyarrow import fs

    from kfmt_cli.core import file_systems

    local = fs.SubTreeFileSystem(str(SAMPLES), fs.LocalFileSystem())
    opened = local, lambda url: url.split("://", 1)[1]
    monkeypatch.setattr(file_systems, "_open_file_system", lambda scheme, host: opened)
    request = replace(parse_request({}), paths=("s3://kafka-3.9.1-broker1/orders-0",))
    actual = record_keys(read_rows(replace(request, max_split_bytes=9000)))
    expected = dumped(ORDERS.parent)
    assert [record[1:] for record in actual] == [record[1:] for record in expected]
    assert actual[0][0] == "s3://kafka-3.9.1-broker1/orders-0/00000000000000000000.log"


@pytest.mark.parametrize("name", ["plain", "zstd"])
def test_read_committed_of_a_tiered_topic_on_spark(name: str, tmp_path: Path) -> None:
    """A transaction that is open at the end of the tiered log may end in the local one."""
    shutil.copytree(ROOT / "tests/kept/aiven-1.0.0" / name, tmp_path / name)
    local = tmp_path / "local/txn-0"
    local.mkdir(parents=True)
    for file in TXN.parent.glob(f"{635:020}.*"):
        shutil.copy(file, local)
    bucket = tmp_path / name / "tiered"
    for paths in ((bucket,), (bucket, tmp_path / "local")):
        request = request_for(*paths, isolation="read_committed", columns="topic,offset")
        rows = sorted((row["topic"], row["offset"]) for row in read_rows(request))
        fields = kfmt("cat", *paths, "--isolation", "read_committed", "-f", "%t %o\n").out.split()
        assert rows == sorted(zip(fields[::2], map(int, fields[1::2]), strict=True))
        assert 300 < sum(topic == "txn" for topic, _ in rows) < 545
