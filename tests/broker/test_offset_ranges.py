"""Offsets at which groups and mirrors continue, below, within and beyond their logs."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.broker.log_reading.offset_map import latest_in_run_mask
from kfmt_cli.broker.state import can_replay, create_replay
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.state.internal_topics import replay_log_records
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.file_names import parse_topic_partition
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.record_stream import StreamedRecord, iter_records_and_findings
from kfmt_cli.topics import topic_message_types
from tests.broker.test_cluster_state import encoded
from tests.broker.test_state import built, message, of, record, state
from tests.support.samples import Row, kfmt
from tools.kafka import SAMPLES

TOPIC_ID = "WNfP4a0oQMKl7dpbxVNwOA"
CODE = "committed-offset-out-of-range"
# The offset that is read next of a log with offsets 10 to 19, its range and its lag.
CASES = [
    (0, "below log start", 10),
    (9, "below log start", 10),
    (10, "in range", 10),
    (15, "in range", 5),
    (20, "in range", 0),
    (21, "beyond log end", 0),
]
COLUMNS = ("log_start_offset", "log_end_offset", "lag", "range")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory with a topic that begins at 10, and ends at 20."""
    log_directory = tmp_path / "data"
    log_directory.mkdir()
    add_log(log_directory, 10)
    return log_directory


def add_log(log_directory: Path, base_offset: int, topic: str = "t") -> None:
    """Add the offsets from a base offset to 19 of a partition."""
    partition = log_directory / f"{topic}-0"
    built(partition, [record(offset, "00", "01") for offset in range(base_offset, 20)])
    (log_directory / f"{topic}-0.jsonl").unlink()
    text = f"version: 0\ntopic_id: {TOPIC_ID}\n"
    (partition / "partition.metadata").write_text(text)


def commits(*offsets: int) -> list[dict[str, Any]]:
    """A commit of each offset, by a group of its own."""
    topic = "__consumer_offsets"
    return [
        record(
            i,
            message(topic, 1, "key", 0, {"group": f"g{i:02}", "topic": "t", "partition": 0}),
            message(
                topic,
                1,
                "value",
                3,
                {"offset": offset, "leader_epoch": 0, "metadata": "", "commit_timestamp": 5},
            ),
        )
        for i, offset in enumerate(offsets)
    ]


def share_partitions(*start_offsets: int, n_complete: int = 0) -> list[dict[str, Any]]:
    """The state of a share partition with each start offset, in a group of its own."""
    topic = "__share_group_state"
    layout = layout_at_version(topic_message_types(topic)[0].value_layout, 0)
    fields: dict[str, Any] = {field.name: 0 for field in layout.fields} | {"state_batches": []}
    return [
        record(
            i,
            message(
                topic,
                0,
                "key",
                0,
                {"group_id": f"g{i:02}", "topic_id": TOPIC_ID, "partition": 0},
            ),
            message(
                topic,
                0,
                "value",
                0,
                fields | {"start_offset": offset, "delivery_complete_count": n_complete},
            ),
        )
        for i, offset in enumerate(start_offsets)
    ]


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def checkpoints(*offsets: int) -> list[dict[str, Any]]:
    """MirrorMaker's checkpoint of each offset, of a group of its own."""
    return [
        record(
            i,
            (string(f"g{i:02}") + string("t") + struct.pack(">i", 0)).hex(),
            (struct.pack(">hqq", 0, 7, offset) + string("")).hex(),
        )
        for i, offset in enumerate(offsets)
    ]


def ranges(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["range"], row["lag"]) for row in rows]


EXPECTED = [case[1:] for case in CASES]
OFFSETS = [offset for offset, *_ in CASES]
TOPICS = [
    ("__consumer_offsets", commits, "committed_offset"),
    ("__share_group_state", share_partitions, "share_partition"),
    ("p.checkpoints.internal", checkpoints, "mirror_checkpoint"),
]


@pytest.mark.parametrize(("topic", "records", "kind"), TOPICS)
def test_each_position_has_its_range_and_the_lag_that_is_readable(
    topic: str, records: Any, kind: str, directory: Path
) -> None:
    built(directory / f"{topic}-0", records(*OFFSETS))
    rows = of(state(directory), kind)
    assert ranges(rows) == EXPECTED
    assert {(row["log_start_offset"], row["log_end_offset"]) for row in rows} == {(10, 20)}
    findings = kfmt("check", directory, "--json", "--notes").of("finding")
    findings = [row for row in findings if row["code"] == CODE]
    assert [row["offset"] for row in findings] == [0, 9, 21]
    assert {row["severity"] for row in findings} == {"note"}
    texts = [row["message"].partition("; ")[0].partition(" in ")[2] for row in findings]
    assert texts == [
        "t-0: offset 0 is below the log start offset 10",
        "t-0: offset 9 is below the log start offset 10",
        "t-0: offset 21 is beyond the log end offset 20",
    ]
    shutil.rmtree(directory / "t-0")
    assert {(row["range"], row["lag"]) for row in of(state(directory), kind)} == {(None, None)}


def test_the_log_start_offset_is_that_of_the_checkpoint_if_it_is_greater(directory: Path) -> None:
    built(directory / "__consumer_offsets-0", commits(*OFFSETS))
    (directory / "log-start-offset-checkpoint").write_text("0\n1\nt 0 16\n")
    rows = of(state(directory), "committed_offset")
    assert [(row["range"], row["lag"]) for row in rows[2:5]] == [
        ("below log start", 4),
        ("below log start", 4),
        ("in range", 0),
    ]


def test_a_share_partition_below_the_log_start_counts_only_what_is_readable(
    directory: Path,
) -> None:
    built(directory / "__share_group_state-0", share_partitions(5, 12, n_complete=3))
    rows = of(state(directory), "share_partition")
    assert ranges(rows) == [("below log start", 10), ("in range", 5)]


def sync(upstream_offset: int) -> dict[str, Any]:
    """MirrorMaker's offset sync of the partition."""
    key = string("t") + struct.pack(">i", 0)
    return record(0, key.hex(), struct.pack(">qq", upstream_offset, 1).hex())


@pytest.mark.parametrize(("next_offset", "expected_range", "lag"), CASES)
def test_a_sync_of_mirror_maker_is_one_offset_back(
    next_offset: int, expected_range: str, lag: int, directory: Path
) -> None:
    built(directory / "mm2-offset-syncs.b.internal-0", [sync(next_offset - 1)])
    (row,) = of(state(directory), "mirror_sync")
    assert (row["range"], row["lag"]) == (expected_range, lag)
    findings = kfmt("check", directory, "--json", "--notes").of("finding")
    assert CODE not in {finding["code"] for finding in findings}


@pytest.mark.parametrize(("next_offset", "expected_range", "lag"), CASES)
def test_the_source_offset_of_mirror_maker_is_of_another_cluster(
    next_offset: int, expected_range: str, lag: int, directory: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for path, cluster_id in ((directory, "source"), (target, "target")):
        properties = f"version=1\ncluster.id={cluster_id}\nnode.id=1\n"
        (path / "meta.properties").write_text(properties)
    keys = [
        ["mirror", {"cluster": "a", "partition": 0, "topic": "t"}],
        ["other", {"file": "x"}],
    ]
    value = json.dumps({"offset": next_offset - 1}).encode().hex()
    records = [record(i, json.dumps(key).encode().hex(), value) for i, key in enumerate(keys)]
    built(target / "connect-offsets-0", records)
    mirror, other = of(state(target, directory), "source_offset")
    assert [mirror[name] for name in COLUMNS] == [10, 20, lag, expected_range]
    assert not set(COLUMNS) & other.keys()
    assert not set(COLUMNS) & of(state(target), "source_offset")[0].keys()
    findings = kfmt("check", target, directory, "--json", "--notes").of("finding")
    n_findings = sum(finding["code"] == CODE for finding in findings)
    assert n_findings == (expected_range != "in range")


def test_a_remote_log_begins_before_its_first_segment_here(directory: Path) -> None:
    built(directory / "__consumer_offsets-0", commits(3))
    remote = {"resource_type": 2, "resource_name": "t", "name": "remote.storage.enable"}
    value = encoded("ConfigRecord", 0, remote | {"value": "true"})
    setting = {"type": "record", "offset": 0, "timestamp": 1, "value": value}
    built(directory / "__cluster_metadata-0", [setting | {"value_encoding": "hex"}])
    (row,) = of(state(directory), "committed_offset")
    assert [row[name] for name in COLUMNS] == [0, 20, 17, "in range"]


INTERNAL_LOGS = [
    path
    for path in sorted(SAMPLES.glob("*/*/*.log"))
    if can_replay(parse_topic_partition(path.parent.name)[0]) and path.stat().st_size
]


@pytest.mark.parametrize(
    "log", INTERNAL_LOGS, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}"
)
def test_superseded_records_may_be_left_out_of_a_replay(log: Path) -> None:
    topic = parse_topic_partition(log.parent.name)[0] or ""
    file = classify_file(str(log), str(log))
    replay, full_replay = create_replay(topic), create_replay(topic)
    findings = list(replay_log_records(replay, file))
    with open_checked_log(file, read_ahead=False) as opened_log:
        for item in iter_records_and_findings(opened_log, DecompressionLimit()):
            if isinstance(item, Finding):
                assert item == findings.pop(0)
            else:
                full_replay.apply_record(item)
    assert not findings
    assert replay.sorted_rows() == full_replay.sorted_rows()


def test_a_replay_needs_the_records_of_transactions_and_the_last_of_each_other_key(
    tmp_path: Path,
) -> None:
    transactional = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    keys = ["00", "01", "00", "00", "01", "00"]
    extras = [{}, {}, transactional, {}, {}, {}]
    records = [
        record(i, key, "02", **extra)
        for i, (key, extra) in enumerate(zip(keys, extras, strict=True))
    ]
    log = built(tmp_path / "t-0", records) / f"{0:020}.log"
    with open_checked_log(classify_file(str(log), "t"), read_ahead=False) as opened_log:
        items = iter_records_and_findings(opened_log, DecompressionLimit(), latest_in_run_mask)
        assert [item.offset for item in items if isinstance(item, StreamedRecord)] == [2, 4, 5]
