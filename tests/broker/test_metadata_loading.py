"""A metadata log that a broker cannot open or apply: `check` and `state` say what stops it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.test_cluster_state import ID_A, ID_B, TOPIC_A, Record
from tests.support.metadata_cases import FAULTS, LOADED, PARTITION, REGISTERED, write_log
from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
CODE = "metadata-load-fails"


@pytest.mark.parametrize("name", FAULTS)
def test_the_record_is_named_that_stops_a_broker(tmp_path: Path, name: str) -> None:
    records, reason = FAULTS[name]
    write_log(tmp_path / "__cluster_metadata-0", records)
    for command in ("state", "check"):
        [finding] = [
            row
            for row in kfmt(command, tmp_path / "__cluster_metadata-0", "--json").of("finding")
            if row["code"] == CODE
        ]
        assert finding["offset"] == len(records) - 1
        expected = f"from offset {len(records) - 1}, {records[-1][0]}: {reason}"
        assert finding["message"].startswith(f"Error loading metadata log record {expected}")


@pytest.mark.parametrize("name", LOADED)
def test_records_that_a_broker_applies_are_no_finding(tmp_path: Path, name: str) -> None:
    write_log(tmp_path / "__cluster_metadata-0", LOADED[name])
    assert CODE not in kfmt("state", tmp_path / "__cluster_metadata-0", "--json").out


def disk(tmp_path: Path, *records: Record, base_offset: int = 0) -> Path:
    """A log directory with these records in its metadata log."""
    directory = tmp_path / "disk"
    shutil.copytree(BROKER, directory)
    metadata_log = directory / "__cluster_metadata-0"
    for path in metadata_log.iterdir():
        if path.name not in {"quorum-state", "partition.metadata"}:
            path.unlink()
    write_log(metadata_log, records, base_offset)
    return directory


def test_a_broker_does_not_start_and_its_marker_stays(tmp_path: Path) -> None:
    fence: Record = ("FenceBrokerRecord", 0, {"id": 1, "epoch": 6})
    result = kfmt("check", disk(tmp_path, REGISTERED, fence), "--json")
    [start] = result.of("log_directory")
    assert (result.code, start["starts"]) == (1, False)
    assert "did not match the current broker epoch, 5" in start["reason"]


def test_a_log_without_the_snapshot_before_it_is_not_opened(tmp_path: Path) -> None:
    directory = disk(tmp_path, TOPIC_A, base_offset=20)
    result = kfmt("check", directory, "--json")
    assert result.code == 1
    assert "Inconsistent snapshot state" in result.out
    assert "current log start offset 20" in result.out
    shown = kfmt("state", directory / "__cluster_metadata-0")
    assert "offsets 0–19 are missing" in shown.err
    assert shown.code == 3


def test_damage_before_a_record_is_its_excuse(tmp_path: Path) -> None:
    directory = disk(tmp_path, TOPIC_A, (*PARTITION[:2], {**PARTITION[2], "topic_id": ID_B}))
    assert CODE in kfmt("check", directory, "--json").out
    [log] = directory.glob("__cluster_metadata-0/*.log")
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert CODE not in kfmt("check", directory, "--json").out
    assert ID_A not in kfmt("state", log.parent).out


@pytest.mark.parametrize(
    "snapshot", ["00000000000000000001-0000000009", "00000000000000000099-0000000000"]
)
def test_a_newer_snapshot_replaces_the_log(tmp_path: Path, snapshot: str) -> None:
    """One of a later leader epoch, or of an offset that the log has not reached."""
    directory = disk(tmp_path, TOPIC_A, PARTITION)
    sample = min(BROKER.glob("__cluster_metadata-0/*.checkpoint"))
    shutil.copy(sample, directory / f"__cluster_metadata-0/{snapshot}.checkpoint")
    rows = kfmt("check", directory, "--json").of("broker_start")
    end = int(snapshot[:20])
    ends = {
        (row["log_start_offset"], row["log_end_offset"])
        for row in rows
        if row["file"].endswith("__cluster_metadata-0")
    }
    assert ends == {(end, end)}
