"""`kfmt dump` of every kind of file that a broker writes, and of directories."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.core.source import FileSource
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.kinds import KINDS, classify_name
from kfmt_cli.disk.kinds.properties import parse_colon_lines, parse_java_properties
from tests.support.samples import ORDERS, kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
METADATA = BROKER / "__cluster_metadata-0"
SNAPSHOT = METADATA / "00000000000000000559-0000000001.checkpoint"
FILES = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.parent != SAMPLES)


def test_every_sample_is_of_a_known_kind() -> None:
    assert len(FILES) > 300
    assert [file for file in FILES if classify_name(file.name)[0] not in KINDS] == []


def test_every_sample_is_shown_in_a_table_and_as_json() -> None:
    table = kfmt("dump", *FILES)
    assert table.code == 0, table.err
    assert [file for file in FILES if str(file) not in table.out] == []
    rows = kfmt("dump", *FILES, "--json")
    assert rows.code == 0
    assert not rows.codes


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            BROKER / "meta.properties",
            {
                "type": "meta_properties",
                "version": 1,
                "broker_id": None,
                "node_id": 1,
                "cluster_id": "4L6g3nShT-eMCtK--X86sw",
                "directory_id": "Id4qCpYkZMw8zR87hsZyqQ",
            },
        ),
        (
            SAMPLES / "kafka-2.8.2/meta.properties",
            {
                "type": "meta_properties",
                "version": 0,
                "broker_id": 1,
                "node_id": None,
                "cluster_id": "tLSAa5MhT061dadF4YHjqw",
                "directory_id": None,
            },
        ),
        (
            BROKER / ".kafka_cleanshutdown",
            {"type": "clean_shutdown", "version": 0, "broker_epoch": 6},
        ),
        (
            SAMPLES / "kafka-2.8.2/.kafka_cleanshutdown",
            {"type": "clean_shutdown", "version": None, "broker_epoch": None},
        ),
        (
            BROKER / "orders-0/partition.metadata",
            {"type": "partition_metadata", "version": 0, "topic_id": "WNfP4a0oQMKl7dpbxVNwOA"},
        ),
        (
            METADATA / "quorum-state",
            {
                "type": "quorum_state",
                "data_version": 0,
                "cluster_id": "",
                "leader_id": 1,
                "leader_epoch": 1,
                "voted_id": -1,
                "voted_directory_id": None,
                "applied_offset": 0,
                "current_voters": [{"voter_id": 1}],
            },
        ),
    ],
    ids=lambda item: item.parent.name + "/" + item.name if isinstance(item, Path) else "",
)
def test_a_small_file_is_one_row(file: Path, expected: dict[str, object]) -> None:
    result = kfmt("dump", file, "--json")
    (row,) = result.rows
    assert result.code == 0
    assert {name: value for name, value in row.items() if name != "file"} == expected
    assert kfmt("dump", file).out.endswith("1 entry shown\n")


@pytest.mark.parametrize(
    ("name", "content", "code", "position"),
    [
        ("meta.properties", b"", "meta-properties-malformed", 0),
        ("meta.properties", b"version=1\nnode.id=one\n", "meta-properties-malformed", 10),
        ("meta.properties", b"node.id=1\n", "meta-properties-malformed", 10),
        ("partition.metadata", b"version: 0\ntopic_id: x\n", "partition-metadata-malformed", 11),
        ("partition.metadata", b"version 0\n", "partition-metadata-malformed", 0),
        ("quorum-state", b'{"leaderId":1,', "quorum-state-malformed", 14),
        ("quorum-state", b"[1]", "quorum-state-malformed", 0),
        (
            "quorum-state",
            b'{"data_version":7,"leaderEpoch":1}',
            "quorum-state-malformed",
            0,
        ),
        ("meta.properties", b"version=1\rnode.id=1\ra=\\u12\r", "meta-properties-malformed", 20),
        (".kafka_cleanshutdown", b"\xff{}", "clean-shutdown-malformed", 0),
        (".kafka_cleanshutdown", b'{"a": x}', "clean-shutdown-malformed", 6),
        (".kafka_cleanshutdown", '{"é€": x}'.encode(), "clean-shutdown-malformed", 10),
        (".kafka_cleanshutdown", b"[]", "clean-shutdown-malformed", 0),
    ],
)
def test_a_malformed_small_file_has_a_finding(
    name: str, content: bytes, code: str, position: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    result = kfmt("dump", tmp_path / name, "--json", "--strict")
    findings = result.of("finding")
    assert (findings[0]["code"], findings[0]["position"]) == (code, position)
    assert result.code == 1


@pytest.mark.parametrize(
    ("name", "max_bytes"),
    [
        ("meta.properties", 1 << 20),
        ("quorum-state", 1 << 20),
        ("replication-offset-checkpoint", 64 << 20),
        (f"{0:020}.index", 256 << 20),
        (f"{0:020}.timeindex", 256 << 20),
    ],
)
def test_a_file_that_is_too_large_to_be_one_is_refused(
    name: str, max_bytes: int, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(b"x")
    os.truncate(file, max_bytes + 1)
    result = kfmt("dump", file)
    assert (result.code, result.out) == (3, "")
    assert f"{file}: too large for " in result.err
    if max_bytes < 64 << 20 or name.endswith("index"):  # it ends in a hole that is not read
        os.truncate(file, max_bytes)
        assert "too large" not in kfmt("dump", file, "--limit", "1").err


def test_names_that_are_not_known_are_shown(tmp_path: Path) -> None:
    text = "version=1\nnode.id=3\nmade.up=ü \\u00e9\\\n  x\n"
    (tmp_path / "meta.properties").write_text(text, encoding="iso-8859-1")
    (row,) = kfmt("dump", tmp_path / "meta.properties", "--json").rows
    assert row["other"] == {"made.up": "ü éx"}


def test_java_properties_are_read_as_java_does() -> None:
    text = "# a comment\n! another\n\n a = b \nc:d\ne f g\nh\\=i=j\\n\\\n   k\nlast"
    entries = [(name, value) for _, name, value in parse_java_properties(text, lambda *_: None)]
    assert entries == [("a", "b "), ("c", "d"), ("e", "f g"), ("h=i", "j\nk"), ("last", "")]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_no_text_hides_the_next_property(text: str) -> None:
    prefix = f"{text}\n\n"  # the first end of a line may be continued
    end = len(prefix.encode())
    latin1_text = text.encode().decode("iso-8859-1")
    entries = list(parse_java_properties(f"{latin1_text}\n\nlast=1", lambda *_: None))
    assert entries[-1] == (end, "last", "1")
    malformed: list[int] = []
    entries = list(
        parse_colon_lines(f"{prefix}last: 1", lambda position, _: malformed.append(position))
    )
    assert entries[-1] == (end, "last", "1")
    positions = sorted([*malformed, *(position for position, _, _ in entries)])
    all_lines = re.split(r"\r\n|\r|\n", f"{prefix}last: 1")
    lines = [line for line in all_lines if line.strip()]
    assert len(positions) == len(set(positions)) == len(lines)


def test_a_snapshot_without_its_footer_is_not_whole(tmp_path: Path) -> None:
    last = kfmt("dump", SNAPSHOT, "--json").of("batch")[-1]["position"]
    file = tmp_path / SNAPSHOT.name
    for content, codes in (
        (SNAPSHOT.read_bytes()[:last], ["snapshot-footer-missing"]),
        (SNAPSHOT.read_bytes()[83:], ["snapshot-header-missing"]),
        (SNAPSHOT.read_bytes()[83:last], ["snapshot-header-missing", "snapshot-footer-missing"]),
        (b"", ["snapshot-footer-missing"]),
    ):
        file.write_bytes(content)
        for command in ("dump", "verify-crc"):
            result = kfmt(command, file, "--json")
            assert (result.code, sorted(result.codes)) == (1, sorted(codes))
    file.write_bytes(SNAPSHOT.read_bytes()[:last])
    partial_snapshot = file.rename(tmp_path / "00000000000000000559-0000000001-123.checkpoint.part")
    assert kfmt("dump", partial_snapshot, "--json").code == 0


@pytest.mark.parametrize("command", ["dump", "verify-crc", "check"])
def test_findings_in_a_snapshot_say_nothing_of_a_segment(command: str, tmp_path: Path) -> None:
    """Log recovery never touches it, and no consumer reads it."""
    file = tmp_path / "__cluster_metadata-0" / SNAPSHOT.name
    file.parent.mkdir()
    file.write_bytes(bytes(604))
    (finding,) = [
        row for row in kfmt(command, file, "--json").of("finding") if row["code"] == "zero-tail"
    ]
    assert finding["after_crash"] is finding["after_clean_shutdown"] is None
    assert finding["advice"].startswith("A start reads the newest snapshot of the metadata log")


def test_marked_copies_are_shown_like_their_originals(tmp_path: Path) -> None:
    for suffix in (".deleted", ".cleaned", ".swap"):
        for kind in (".log", ".index", ".timeindex"):
            shutil.copy(ORDERS.with_suffix(kind), tmp_path / f"{ORDERS.stem}{kind}{suffix}")
    for suffix in (".deleted", ".cleaned", ".swap"):
        result = kfmt("dump", tmp_path / f"{ORDERS.stem}.index{suffix}")
        assert f"base offset 0   a copy marked {suffix}\n" in result.out
    types = {row["type"] for row in kfmt("dump", tmp_path, "--json").rows}
    assert types == {"batch", "offset_index_entry", "time_index_entry"}
    batches = kfmt("dump", ORDERS, "--json").of("batch")
    assert len(kfmt("dump", tmp_path, "--json").of("batch")) == 3 * len(batches)


@pytest.mark.parametrize("mark", ["delete", "future", "stray"])
def test_a_directory_that_is_marked_is_shown_as_that(mark: str, tmp_path: Path) -> None:
    directory = tmp_path / f"__consumer_offsets-1.{'0a' * 16}-{mark}"
    shutil.copytree(BROKER / "__consumer_offsets-1", directory)
    result = kfmt("dump", tmp_path)
    assert f"base offset 0   in a directory marked -{mark}\n" in result.out
    rows = kfmt("dump", tmp_path, "--records", "--json").of("record")
    assert rows[0]["decoded_key"]["name"] == "GroupMetadataKey"


def test_the_topic_is_known_in_any_working_directory() -> None:
    directory = BROKER / "__consumer_offsets-1"
    for path in ("00000000000000000000.log", "./00000000000000000000.log", "."):
        rows = kfmt("dump", path, "--records", "--json", cwd=directory).of("record")
        assert rows[0]["decoded_key"]["name"] == "GroupMetadataKey"
    assert kfmt("state", "00000000000000000000.log", cwd=directory).code == 0


@pytest.mark.parametrize("n_initial", [0, 200_000], ids=["empty", "of 1.6 MB"])
def test_an_index_that_grows_while_it_is_read_is_read_to_its_end(
    n_initial: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = b"".join(struct.pack(">ii", offset, offset) for offset in range(1, 500_001))
    index = tmp_path / f"{0:020}.index"
    index.write_bytes(entries[: 8 * n_initial])
    original_data_end = FileSource.written_data_end

    def data_end_before_growth(source: FileSource) -> int:
        end = original_data_end(source)
        index.write_bytes(entries)
        return end

    monkeypatch.setattr(FileSource, "written_data_end", data_end_before_growth)
    table = classify_file(str(index), index.name).read_contents().table
    assert (table["offset"] == np.arange(1, 500_001)).all()


def test_an_entry_of_a_time_index_without_a_time_shows_none(tmp_path: Path) -> None:
    index = tmp_path / f"{0:020}.timeindex"
    index.write_bytes(struct.pack(">qiqi", -1, 5, 0, 7))
    lines = kfmt("dump", index).out.splitlines()
    assert [line.split()[1:] for line in lines[2:4]] == [
        ["–", "5"],
        ["1970-01-01", "00:00:00.000", "7"],
    ]


def test_a_directory_is_shown_in_order(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    (directory / "00000000000000000240.index.deleted").write_bytes(b"")
    (directory / "notes.txt").write_text("mine")
    shutil.copy(BROKER / "meta.properties", tmp_path)
    result = kfmt("dump", tmp_path, "--json")
    assert result.code == 0
    assert result.of("unknown_file") == [
        {"type": "unknown_file", "file": str(directory / "notes.txt"), "bytes": 4}
    ]
    files = list(dict.fromkeys(Path(row["file"]).name for row in result.rows))
    assert files[:3] == [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
    ]
    assert files[-4:] == [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "notes.txt",
        "meta.properties",
    ]
    table = kfmt("dump", tmp_path).out
    assert "orders-0/notes.txt   4 bytes   not a file kfmt recognises\n" in table
    logs = {Path(row["file"]).suffix for row in kfmt("dump", tmp_path, "--records", "--json").rows}
    assert logs == {".log"}


def test_a_directory_without_kafka_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = kfmt("dump", tmp_path)
    assert (result.code, result.out) == (3, "")
    assert "no log segments in or under this directory" in result.err


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_small_files_give_findings_or_rows(data: st.DataObject) -> None:
    import kfmt_cli
    from kfmt_cli.errors import InputError

    names = ("meta.properties", "partition.metadata", "quorum-state", ".kafka_cleanshutdown")
    file = data.draw(st.sampled_from([file for file in FILES if file.name in names]))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        if content:
            position = data.draw(st.integers(0, len(content) - 1))
            content[position : position + data.draw(st.integers(0, 3))] = data.draw(
                st.binary(max_size=3)
            )
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / file.name
        copy.write_bytes(content)
        try:
            contents = kfmt_cli.read_file(copy)
        except InputError:
            return
        assert len(list(contents.objects())) == 1
        json.dumps(list(contents.objects()))


def test_a_producer_without_an_open_transaction_has_none() -> None:
    snapshot = SAMPLES / "kafka-3.9.1-broker1/txn-0/00000000000000000736.snapshot"
    lines = kfmt("dump", snapshot).out.splitlines()
    assert [line.split()[-1] for line in lines[2:-1]] == ["–"] * 5
    rows = kfmt("dump", snapshot, "--json").of("producer_state")
    assert {row["current_txn_first_offset"] for row in rows} == {-1}
