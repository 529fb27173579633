"""Partitions that a coordinator cannot load: the record and the versions are named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kfmt_cli.broker.state.coordinator_loading import CoordinatorLoading
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.source import Source
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.log.record_stream import StreamedRecord, iter_records_and_findings
from tests.support.coordinator_records import (
    GROUPS,
    SHARES,
    TRANSACTIONS,
    Line,
    classic,
    commit,
    group_record,
    share_update,
    transaction,
    without_key,
    write_partition,
)
from tests.support.samples import Row, kfmt
from tools.kafka import SAMPLES

CODE = "coordinator-load-fails"
OF_4 = "Kafka 4.0, 4.1, 4.2, 4.3, 4.4"
ALL = "Kafka 3.9, 4.0, 4.1, 4.2, 4.3, 4.4"
NEW_39 = "3.9 with the new group coordinator"
NOT_SERVED = "no group of this partition is served"
CASES: dict[str, tuple[str, list[Line], str, str, str]] = {
    "a consumer group after a classic one": (
        GROUPS,
        [commit(0, "other"), classic(1), group_record(2, "consumer", "metadata")],
        "ConsumerGroupMetadata of group g: Group g is not a consumer group",
        f"{NOT_SERVED} ({OF_4}, {NEW_39})",
        "error",
    ),
    "a share group after offsets": (
        GROUPS,
        [commit(0), group_record(1, "share", "metadata")],
        "ShareGroupMetadata of group g: Group g is not a share group",
        f"({OF_4})",
        "error",
    ),
    "a group's tombstone before its member's": (
        GROUPS,
        [
            group_record(0, "consumer", "member"),
            group_record(1, "consumer", "metadata", epoch=None),
        ],
        "Received a tombstone record to delete group g but the group still has 1 members.",
        f"({OF_4}, {NEW_39})",
        "error",
    ),
    "two members own a partition": (
        GROUPS,
        [
            group_record(0, "consumer", "assignment", member="a", epoch=2, partitions=[0]),
            group_record(1, "consumer", "assignment", member="b", epoch=2, partitions=[0]),
        ],
        "to 2 because the partition is still owned at epoch 2",
        f"({OF_4})",
        "error",
    ),
    "a member with a later epoch owns a partition": (
        GROUPS,
        [
            group_record(0, "consumer", "assignment", member="a", epoch=2, partitions=[0]),
            group_record(1, "consumer", "assignment", member="b", epoch=3, partitions=[0]),
        ],
        "to 3 because the partition is still owned at epoch 2",
        "(Kafka 4.0, 4.1)",
        "warning",
    ),
    "a commit of an unknown version": (
        GROUPS,
        [commit(0, version=9)],
        "OffsetCommit of group g: Unknown offset message version: 9",
        "the groups of this partition start over without committed offsets (Kafka 3.9)",
        "warning",
    ),
    "no key": (GROUPS, [without_key(commit(0))], "its key is null", ALL, "error"),
    "a state of a transaction": (
        TRANSACTIONS,
        [transaction(0), transaction(1, status=9)],
        "of transactional id id: Unknown transaction state id 9",
        f"the coordinator loads neither this record nor any after it ({ALL})",
        "error",
    ),
    "a version of a transaction": (
        TRANSACTIONS,
        [transaction(0, version=5)],
        "Unknown version 5 from the transaction log message value",
        "(Kafka 3.9, 4.0, 4.1, 4.2)",
        "warning",
    ),
    "a tombstone of an update": (
        SHARES,
        [share_update(0, None)],
        "ShareUpdate of group g: the value of an update is null",
        f"no share partition of this partition is served ({OF_4})",
        "error",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_record_and_the_versions_are_named(tmp_path: Path, name: str) -> None:
    topic, lines, reason, consequence, severity = CASES[name]
    directory = write_partition(tmp_path / f"{topic}-0", lines)
    for command in ("check", "state"):
        [finding] = findings(command, directory)[:1]
        assert reason in finding["message"]
        assert consequence in finding["message"]
        assert (finding["severity"], finding["offset"]) == (severity, lines[-1]["offset"])


def findings(command: str, directory: Path, *options: str) -> list[Row]:
    """The findings about what a coordinator loads."""
    rows = kfmt(command, directory, *options, "--json").of("finding")
    return [row for row in rows if row["code"] == CODE]


def test_no_group_of_the_partition_is_served(tmp_path: Path) -> None:
    topic, lines, *_ = CASES["a consumer group after a classic one"]
    directory = write_partition(tmp_path / f"{topic}-0", lines)
    rows = kfmt("state", directory, "--json").of("group")
    assert {row["group"] for row in rows} == {"g", "other"}
    assert all("Group g is not a consumer group" in row["load_error"] for row in rows)


@pytest.mark.parametrize(("version", "severity"), [("3.9", "note"), ("4.2", "error")])
def test_the_version_of_the_broker_decides(tmp_path: Path, version: str, severity: str) -> None:
    topic, lines, *_ = CASES["a consumer group after a classic one"]
    directory = write_partition(tmp_path / f"{topic}-0", lines)
    [finding] = findings("check", directory, "--kafka-version", version)
    assert finding["severity"] == severity


def test_a_group_in_its_order_is_loaded(tmp_path: Path) -> None:
    kinds = ("metadata", "member", "targets", "target", "assignment")
    lines = [commit(0), *(group_record(i, "consumer", kind) for i, kind in enumerate(kinds, 1))]
    removed = ("assignment", "target", "targets", "member", "metadata")
    lines += (group_record(i, "consumer", kind, epoch=None) for i, kind in enumerate(removed, 6))
    directory = write_partition(tmp_path / f"{GROUPS}-0", lines)
    assert findings("check", directory) == findings("state", directory) == []


def test_check_reads_a_coordinators_log_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_counted(path: str, name: str) -> Source:
        opened.append(path)
        return open_source(path, name)

    monkeypatch.setattr("kfmt_cli.log.log_opening.open_source", open_counted)
    source = SAMPLES / "kafka-3.9.1-broker1/__transaction_state-0"
    shutil.copytree(source, tmp_path / source.name)
    result = kfmt("check", tmp_path, "--jobs", "1", "--json")
    assert result.code == 0
    assert sum(path.endswith(".log") for path in opened) == 1


def records_of_each_type(topic: str) -> list[StreamedRecord]:
    """A record of each type of key in the samples, with a value."""
    record_by_type: dict[bytes, StreamedRecord] = {}
    for log in sorted(SAMPLES.glob(f"kafka-4.4.0/*/{topic}-*/*.log")):
        with open_log(InputFile(str(log), log.name, LOG_KIND), read_ahead=False) as opened_log:
            for item in iter_records_and_findings(opened_log, DecompressionLimit()):
                if isinstance(item, StreamedRecord) and item.key and item.value:
                    record_by_type.setdefault(item.key[:2], item)
    return list(record_by_type.values())


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS, SHARES])
def test_keys_and_values_that_are_cut_anywhere_are_read_as_far_as_they_go(topic: str) -> None:
    records = records_of_each_type(topic)
    assert records
    for record in records:
        assert record.key is not None
        assert record.value is not None
        for length in range(len(record.key)):
            CoordinatorLoading(topic).apply_record(replace(record, key=record.key[:length]))
        for length in range(len(record.value)):
            CoordinatorLoading(topic).apply_record(replace(record, value=record.value[:length]))
