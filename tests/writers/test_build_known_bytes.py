"""Batches whose bytes are known from other sources, built from their fields.

The checksums are those that Kafka computed: in the output of its own tool (A), in the tests of
pull requests 19729 (B) and 12084 (C); D is a marker as brokers write it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import kfmt

VOTERS = {
    "version": 0,
    "voters": [
        {
            "voter_id": 1,
            "voter_directory_id": "tpx8pd1IQDqJwMfGzXj6GA",
            "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
    ],
}
LEADER = {
    "version": 0,
    "leader_id": 1,
    "voters": [{"voter_id": 1}],
    "granting_voters": [{"voter_id": 1}],
}
NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
BATCHES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], int, int]] = {
    "A": (
        {"partition_leader_epoch": 0, "attributes": {"raw": 0}, "base_timestamp": 1716780091840},
        [{"key": None, "value": f"hello kafka{i}"} for i in range(10)],
        251,
        997822510,
    ),
    "B": (
        {"partition_leader_epoch": 1, "attributes": {"raw": 32}, "base_timestamp": 1747299887693},
        [
            {"control": {"type": "LEADER_CHANGE", "data": LEADER}},
            {"control": {"type": "KRAFT_VERSION", "data": {"version": 0, "kraft_version": 1}}},
            {"control": {"type": "KRAFT_VOTERS", "data": VOTERS}},
        ],
        174,
        3714449884,
    ),
    "C": (
        {"partition_leader_epoch": 0, "attributes": {"raw": 32}, "base_timestamp": 1653548892941},
        [
            {
                "control": {
                    "type": "SNAPSHOT_HEADER",
                    "data": {"version": 0, "last_contained_log_timestamp": 10000},
                }
            }
        ],
        83,
        3406426388,
    ),
    "D": (
        {
            "base_offset": 10,
            "partition_leader_epoch": 3,
            "attributes": {"raw": 48},
            "base_timestamp": 1000,
            "producer_id": 5,
            "producer_epoch": 0,
        },
        [{"control": {"type": "COMMIT", "coordinator_epoch": 7}}],
        78,
        0xC45A39E2,
    ),
}


@pytest.mark.parametrize("name", list(BATCHES))
def test_a_batch_that_is_described_has_the_checksum_that_kafka_gave_it(
    name: str, tmp_path: Path
) -> None:
    fields, contents, size, crc = BATCHES[name]
    batch = {"type": "batch", "magic": 2, "base_offset": 0, **NO_PRODUCER, **fields}
    time = batch["base_timestamp"]
    batch["max_timestamp"] = time
    first = int(batch["base_offset"])
    records = [
        {"type": "record", "offset": first + i, "timestamp": time, **content}
        for i, content in enumerate(contents)
    ]
    lines = tmp_path / "lines"
    lines.write_text("".join(json.dumps(row) + "\n" for row in (batch, *records)))
    directory = tmp_path / "built"
    assert kfmt("build", lines, directory).code == 0
    rows = kfmt("dump", directory, "--records", "--json").rows
    assert (rows[0]["size"], rows[0]["crc"]) == (size, crc)
    for record, content in zip(rows[1:], contents, strict=True):
        if "control" in content:
            assert content["control"].items() <= record["control"].items()


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ({"type": "KRAFT_VERSION", "data": {"version": 0}}, "KeyError('kraft_version')"),
        ({"type": "KRAFT_VERSION", "data": {"version": 7}}, "has versions 0 to 0, not 7"),
        (
            {"type": "LEADER_CHANGE", "data": LEADER | {"leader_id": "one"}},
            "not a LeaderChangeMessage",
        ),
    ],
)
def test_control_data_that_is_no_message_is_refused(
    control: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text(json.dumps({"offset": 0, "control": control}) + "\n")
    result = kfmt("build", tmp_path / "lines", tmp_path / "built")
    assert result.code == 2
    assert message in result.err
