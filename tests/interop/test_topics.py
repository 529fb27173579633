"""Internal topics and small files as kafka-dump-log of 3.9.1 decodes them, entry by entry."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import Row, kfmt
from tests.topics.test_messages import without_underscores
from tools.kafka import SAMPLES, VERSION, dump_log_class, dump_version, java, missing

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
CONTENT = re.compile(r"^\| offset: (\d+) .*?headerKeys: \[\](?: key: (.*?))?(?: payload: (.*))?$")


def kafka_dump(files: list[Path], *options: str) -> list[str]:
    """The lines that kafka-dump-log prints about files."""
    version = dump_version(files[0]) if files[0].is_relative_to(SAMPLES) else VERSION
    names = ",".join(map(str, files))
    command = java(version, dump_log_class(version), *options, "--files", names)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def decoded_data(decoded: Row | None) -> Any:
    """The data that kfmt decodes, with the names that Kafka's JSON and kfmt share."""
    return None if decoded is None else without_underscores(decoded["data"])


def format_transaction(record: Row) -> tuple[str, str]:
    """Format a record of __transaction_state as kafka-dump-log does."""
    key, value = record["decoded_key"]["data"], record["decoded_value"]["data"]
    partitions = [
        f"{item['topic']}-{partition}"
        for item in value["transaction_partitions"] or ()
        for partition in item["partition_ids"]
    ]
    return (
        f"transaction_metadata::transactionalId={key['transactional_id']}",
        ",".join(
            (
                f"producerId:{value['producer_id']}",
                f"producerEpoch:{value['producer_epoch']}",
                f"state={value['transaction_status_name']}",
                f"partitions=[{','.join(partitions)}]",
                f"txnLastUpdateTimestamp={value['transaction_last_update_timestamp_ms']}",
                f"txnTimeoutMs={value['transaction_timeout_ms']}",
            )
        ),
    )


def format_remote_record(record: Row) -> str:
    """Format a record of __remote_log_metadata as kafka-dump-log does."""
    value = record["decoded_value"]["data"]
    segment = value["remote_log_segment_id"]
    partition = segment["topic_id_partition"]
    partition_text = f"{partition['id']}:{partition['name']}-{partition['partition']}"
    id_ = f"RemoteLogSegmentId{{topicIdPartition={partition_text}, id={segment['id']}}}"
    state = value["remote_log_segment_state_name"]
    if record["decoded_value"]["name"] == "RemoteLogSegmentMetadataUpdateRecord":
        return (
            f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={id_}, "
            f"customMetadata=Optional.empty, state={state}, "
            f"eventTimestampMs={value['event_timestamp_ms']}, brokerId={value['broker_id']}}}"
        )
    epochs = ", ".join(
        f"{item['leader_epoch']}={item['offset']}" for item in value["segment_leader_epochs"]
    )
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={id_}, "
        f"startOffset={value['start_offset']}, endOffset={value['end_offset']}, "
        f"brokerId={value['broker_id']}, maxTimestampMs={value['max_timestamp_ms']}, "
        f"eventTimestampMs={value['event_timestamp_ms']}, segmentLeaderEpochs={{{epochs}}}, "
        f"segmentSizeInBytes={value['segment_size_in_bytes']}, customMetadata=Optional.empty, "
        f"state={state}}}"
    )


def enum_name(name: str) -> str:
    """RegisterBrokerRecord as kafka-dump-log writes it: REGISTER_BROKER_RECORD."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def check_record(topic: str, record: Row, key: str | None, payload: str | None) -> None:
    """Check that kfmt decodes a record as kafka-dump-log does."""
    if topic == "__transaction_state" and not (key or "").startswith("{"):
        assert format_transaction(record) == (key, payload)
    elif topic == "__remote_log_metadata":
        assert format_remote_record(record) == payload
    elif topic == "__cluster_metadata":
        expected, actual = json.loads(payload or ""), record["decoded_value"]
        assert (enum_name(actual["name"]), actual["version"]) == (
            expected["type"],
            expected["version"],
        )
        assert decoded_data(actual) == without_underscores(expected["data"])
    else:
        expected_key = json.loads(key or "")
        actual, value = record["decoded_key"], record["decoded_value"]
        assert (str(actual["type"]), decoded_data(actual)) == (
            expected_key["type"],
            without_underscores(expected_key["data"]),
        )
        if payload == "<DELETE>":
            assert value["data"] is None
            return
        expected_value = json.loads(payload or "")
        assert str(value["version"]) == expected_value["version"]
        for member in value["data"].get("members", ()):
            for name in ("subscription", "assignment"):
                # kafka-dump-log does not print the version of these bytes. Those of Kafka
                # Connect's groups stay bytes.
                if isinstance(member[name], dict):
                    member[name].pop("version")
        if topic == "__transaction_state":
            value["data"]["transaction_status"] = value["data"]["transaction_status_name"]
        assert decoded_data(value) == without_underscores(expected_value["data"])


@pytest.mark.parametrize("topic", list(DECODERS))
def test_records_are_decoded_as_by_the_tool(topic: str) -> None:
    logs = sorted(path for path in SAMPLES.rglob(f"{topic}-*/*.log") if path.stat().st_size)
    if topic == "__cluster_metadata":
        logs += sorted(SAMPLES.rglob("*.checkpoint"))
    assert logs
    n_compared = 0
    for log in logs:
        records = {
            row["offset"]: row
            for row in kfmt("dump", log, "--records", "--json").of("record")
            if "control" not in row
        }
        for line in kafka_dump([log], DECODERS[topic]):
            match = CONTENT.match(line)
            if match and (match[2] or match[3]):
                check_record(topic, records[int(match[1])], match[2], match[3])
                n_compared += 1
    assert n_compared >= 10


def format_entry(row: Row) -> str | None:
    """Format an index entry as kafka-dump-log does."""
    if row["type"] == "offset_index_entry":
        return f"offset: {row['offset']} position: {row['log_position']}"
    if row["type"] == "time_index_entry":
        return f"timestamp: {row['timestamp']} offset: {row['offset']}"
    if row["type"] == "aborted_transaction":
        return (
            f"version: {row['version']} producerId: {row['producer_id']} "
            f"firstOffset: {row['first_offset']} lastOffset: {row['last_offset']} "
            f"lastStableOffset: {row['last_stable_offset']}"
        )
    first = row["current_txn_first_offset"]
    first_text = "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]"
    text = (
        f"producerId: {row['producer_id']} producerEpoch: {row['producer_epoch']} "
        f"coordinatorEpoch: {row['coordinator_epoch']} currentTxnFirstOffset: {first_text} "
        f"lastTimestamp: {row['timestamp']} "
    )
    if row["last_offset"] >= 0:
        sequence = row["last_sequence"] - row["offset_delta"]
        text += (
            f"firstSequence: {sequence} lastSequence: {row['last_sequence']} "
            f"lastOffset: {row['last_offset']} offsetDelta: {row['offset_delta']} "
            f"timestamp: {row['timestamp']}"
        )
    return text.strip()


@pytest.mark.parametrize("broker", ["kafka-3.9.1-broker1", "kafka-3.9.1-broker2"])
def test_entries_are_those_of_the_tool(broker: str, tmp_path: Path) -> None:
    copy = tmp_path / broker  # kafka-dump-log creates files next to its inputs
    shutil.copytree(SAMPLES / broker, copy)
    suffixes = (".index", ".timeindex", ".txnindex", ".snapshot")
    files = sorted(
        path for path in copy.rglob("*") if path.suffix in suffixes and path.stat().st_size
    )
    actual: dict[str, list[str | None]] = {str(file): [] for file in files}
    for row in kfmt("dump", *files, "--json").rows:
        actual[row["file"]].append(format_entry(row))
    expected: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in kafka_dump(files):
        if line.startswith("Dumping "):
            lines = expected.setdefault(line.removeprefix("Dumping "), [])
        elif line.startswith(("offset: ", "timestamp: ", "version: ", "producerId: ")):
            lines.append(line.strip())
    assert expected == actual
    assert sum(map(len, actual.values())) > 100
