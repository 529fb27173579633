"""Differences between versions of Kafka in reading the same files.

Expected is what UnifiedLog of each version does: tests/interop/test_versions.py.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from kfmt_cli import check
from kfmt_cli.broker.version import (
    DEFAULT_PREDICTED_VERSION,
    KAFKA_VERSIONS,
    NEWEST_VERSION,
    OLDEST_VERSION,
    PredictedVersion,
    format_predicted_versions,
    version_from_feature_level,
)
from kfmt_cli.errors import UsageError
from tests.support.broken_partitions import ORDERS, V1_GZIP, name, sample
from tests.support.rebuild import with_crc
from tests.support.samples import Row, kfmt
from tests.support.segments import positions, with_bytes
from tests.support.version_cases import LAST_WRAPPERS, undecodable
from tools.kafka import SAMPLES
from tools.observe import Files

BROKER = ORDERS.parent
NAMES = [version.name for version in KAFKA_VERSIONS]
# The wrapper is the first batch after the last entry of the index that recovery rebuilds.
AT_LAST_ENTRY = ("v0-lz4-0", "v0-snappy-0", "v1-snappy-0", "real08-snappy-0")


def starts(files: Files, directory: Path, *options: str) -> list[Row]:
    """The predicted starts of a partition."""
    partition = directory / "given-0"
    partition.mkdir()
    for file, content in files.items():
        (partition / file).write_bytes(content)
    result = kfmt("check", partition, "--json", "--jobs", "1", *options)
    return result.of("broker_start")


@pytest.mark.parametrize("version", NAMES)
@pytest.mark.parametrize("partition", LAST_WRAPPERS)
def test_a_last_wrapper_that_does_not_decompress_keeps_4_from_starting(
    partition: str, version: str, tmp_path: Path
) -> None:
    files = undecodable(LAST_WRAPPERS[partition], -1)
    for row in starts(files, tmp_path, "--kafka-version", version):
        is_found = row["after"] == "clean-shutdown" or partition in AT_LAST_ENTRY
        expected = {"3.9": True, "4.0": not is_found}.get(version, False)
        assert row["starts"] == expected, row["reason"]
        assert row["kafka_version"] == version
        assert row["observed_on"] == [
            next(v.observed_on for v in KAFKA_VERSIONS if v.name == version)
        ]
        if not row["starts"]:
            assert "the wrapper cannot be read" in row["reason"]


@pytest.mark.parametrize(
    ("version", "crash", "clean"),
    [
        ("3.9", [[240, 259]], [[240, 259]]),
        ("4.0", [[240, 259]], [[240, 259]]),
        ("4.1", [[221, 318]], [[221, 278]]),
        *((version, [[221, 318]], [[221, 278]]) for version in ("4.2", "4.3", "4.4")),
    ],
)
def test_a_wrapper_in_the_middle_that_does_not_decompress(
    version: str, crash: list[list[int]], clean: list[list[int]], tmp_path: Path
) -> None:
    rows = starts(undecodable(V1_GZIP, 12), tmp_path, "--kafka-version", version)
    assert all(row["starts"] for row in rows), rows
    assert [row["unreachable_offsets"] for row in rows] == [crash, clean]


@pytest.mark.parametrize(
    ("version", "hidden"),
    [(version, [[340 if version < "4.1" else 321, 378]]) for version in NAMES],
)
def test_the_end_of_the_batch_before_a_hole_cannot_be_sought_since_4_1(
    version: str, hidden: list[list[int]], tmp_path: Path
) -> None:
    data = sample(ORDERS)[name(240)]
    batch_positions = positions(data)
    hole = with_bytes(data, batch_positions[5], bytes(batch_positions[6] - batch_positions[5]))
    rows = starts({**sample(ORDERS), name(240): hole}, tmp_path, "--kafka-version", version)
    clean = next(row for row in rows if row["after"] == "clean-shutdown")
    assert clean["unreachable_offsets"] == hidden


def test_levels_of_metadata_version() -> None:
    assert [
        version_from_feature_level(level).kafka_version.name
        for level in (21, 22, 25, 26, 27, 28, 29, 30, 31, 33)
    ] == [
        *("3.9", "4.0", "4.0", "4.1", "4.1", "4.2", "4.2", "4.3", "4.4", "4.4"),
    ]
    older = version_from_feature_level(OLDEST_VERSION.first_feature_level - 1)
    assert older.kafka_version is OLDEST_VERSION
    assert "oldest that kfmt knows" in older.reason
    newer = version_from_feature_level(NEWEST_VERSION.last_feature_level + 1)
    assert newer.kafka_version is NEWEST_VERSION
    assert "newest that kfmt knows" in newer.reason


def test_versions_in_words() -> None:
    predictions = [
        version_from_feature_level(21),
        DEFAULT_PREDICTED_VERSION,
        PredictedVersion(KAFKA_VERSIONS[3], "from --kafka-version"),
        version_from_feature_level(21),
    ]
    expected = (
        "for Kafka 3.9, from the metadata log or the default; for Kafka 4.2, from --kafka-version"
    )
    assert format_predicted_versions(predictions) == expected


def look_up(files: Files, directory: Path, offset: int, *options: str) -> Row:
    """A lookup of an offset in a partition."""
    partition = directory / "given-0"
    partition.mkdir()
    for file, content in files.items():
        (partition / file).write_bytes(content)
    result = kfmt("index-check", partition, "--lookup-offset", str(offset), "--json", *options)
    (row,) = result.of("lookup")
    return row


@pytest.mark.parametrize("version", NAMES)
@pytest.mark.parametrize("partition", ["v0-gzip-0", "v1-gzip-0"])
def test_a_lookup_finds_the_wrapper_that_contains_the_offset(
    partition: str, version: str, tmp_path: Path
) -> None:
    directory = SAMPLES / "kafka-2.8.2" / partition
    files = {file.name: file.read_bytes() for file in directory.glob("*.log")}
    rows = kfmt("dump", directory, "--records", "--json").of("record")
    middle = rows[len(rows) // 2]
    row = look_up(files, tmp_path, middle["offset"], "--kafka-version", version)
    assert row["batch"]["position"] == middle["batch_position"]


@pytest.mark.parametrize("version", NAMES)
@pytest.mark.parametrize("offset", [1499, 1500, 99_999])
def test_a_lookup_beyond_the_last_offset_scans_all_batches_there_are(
    version: str, offset: int, tmp_path: Path
) -> None:
    files = {file: data for file, data in sample(ORDERS).items() if file == name(1440)}
    row = look_up(files, tmp_path, offset, "--kafka-version", version)
    n_before = len(positions(files[name(1440)])) - 1 - (offset == 1499)
    assert (row["batch"] is not None, row["n_scanned"]) == (offset == 1499, n_before)
    assert [batch["base_offset"] for batch in row["scanned"]] == [1440, 1460, 1480][:n_before]
    assert row["error"] is None


@pytest.mark.parametrize(
    ("version", "offset", "is_found"),
    [
        *(("3.9", 339, True), ("4.0", 339, True), ("4.1", 339, False), ("4.2", 339, False)),
        *((name, 320, True) for name in NAMES),
        *((name, 345, False) for name in NAMES),
    ],
)
def test_a_lookup_before_a_hole_by_version(
    version: str, offset: int, is_found: bool, tmp_path: Path
) -> None:
    data = sample(ORDERS)[name(240)]
    batch_positions = positions(data)
    hole = with_bytes(data, batch_positions[5], bytes(batch_positions[6] - batch_positions[5]))
    files = {**sample(ORDERS), name(240): hole}
    row = look_up(files, tmp_path, offset, "--kafka-version", version)
    assert row["kafka_version"] == version
    assert (row["batch"] is not None) == is_found
    assert (row["error"] is None) == is_found
    if is_found:
        assert row["batch"]["base_offset"] == 320


def test_the_metadata_log_decides_the_version(tmp_path: Path) -> None:
    log_directory = tmp_path / "data"
    shutil.copytree(BROKER, log_directory)
    for level, message in (
        (21, "for Kafka 3.9, from the metadata log"),
        (25, "for Kafka 4.0, from the metadata log"),
        (29, "for Kafka 4.2, from the metadata log"),
        (33, "for Kafka 4.4, from the metadata log"),
        (20, "for Kafka 3.9, the oldest that kfmt knows; the metadata log has metadata.version"),
        (77, "for Kafka 4.4, the newest that kfmt knows; the metadata log has metadata.version"),
    ):
        set_level(log_directory / "__cluster_metadata-0", level)
        output = " ".join(kfmt("check", log_directory).out.split())
        assert message in output, output
        partition_output = " ".join(kfmt("check", log_directory / "orders-0").out.split())
        assert message in partition_output, partition_output
    output = kfmt("check", log_directory, "--kafka-version", "4.1").out
    assert "for Kafka 4.1, from --kafka-version" in " ".join(output.split())
    shutil.rmtree(log_directory / "__cluster_metadata-0")
    output = kfmt("check", log_directory / "orders-0").out
    assert "for Kafka 3.9, the default" in " ".join(output.split())


def test_a_version_before_3_9() -> None:
    """A directory of a broker with ZooKeeper does not tell its version, but the last possible."""
    directory = SAMPLES / "kafka-2.8.2"
    for path in (directory, directory / "v2-none-0"):
        output = " ".join(kfmt("check", path).out.split())
        assert "for Kafka 3.9, the last with ZooKeeper, from meta.properties" in output
        output = " ".join(kfmt("check", path, "--kafka-version", "3.8").out.split())
        assert "for Kafka 3.9, the nearest to 3.8 that kfmt knows" in output
    output = kfmt("index-check", directory / "v2-none-0", "--lookup-offset", "3").out
    assert "the last with ZooKeeper" in output


# The level of metadata.version of a cluster, and the oldest version that starts with it: observed
# with nodes that are a broker and a controller, tests/interop/test_downgrades.py.
@pytest.mark.parametrize(
    ("level", "oldest"),
    [(21, "3.9"), (25, "4.0"), (26, "4.1"), (27, "4.1"), (29, "4.2"), (30, "4.3"), (33, "4.4")],
)
def test_a_failed_downgrade_is_predicted(tmp_path: Path, level: int, oldest: str) -> None:
    log_directory = tmp_path / "data"
    shutil.copytree(BROKER, log_directory)
    set_level(log_directory / "__cluster_metadata-0", level)
    for version in NAMES:
        reasons = start_reasons(log_directory, version)
        assert (f"metadata.version has level {level}" in reasons) == (version < oldest), version


def start_reasons(log_directory: Path, version: str) -> str:
    """The reasons why a version does not start."""
    result = kfmt("check", log_directory, "--kafka-version", version, "--json")
    return "\n".join(row["reason"] or "" for row in result.of("broker_start"))


def test_a_level_before_kraft_was_ready_stops_kafka_4(tmp_path: Path) -> None:
    log_directory = tmp_path / "data"
    shutil.copytree(BROKER, log_directory)
    set_level(log_directory / "__cluster_metadata-0", 4)
    assert "level 4" not in start_reasons(log_directory, "3.9")
    assert "Valid feature levels are from 7 to 26." in start_reasons(log_directory, "4.0")


def set_level(partition: Path, level: int) -> None:
    """Set the level of metadata.version in the newest snapshot of the metadata log."""
    snapshot = max(partition.glob("*.checkpoint"))
    data = snapshot.read_bytes()
    level_position = data.index(b"metadata.version") + len(b"metadata.version")
    batch_positions = positions(data)
    batch_index = sum(position < level_position for position in batch_positions) - 1
    begin, end = batch_positions[batch_index], batch_positions[batch_index + 1]
    batch = with_bytes(data, level_position, struct.pack(">h", level))[begin:end]
    snapshot.write_bytes(data[:begin] + with_crc(batch) + data[end:])


def test_what_is_no_version_is_refused() -> None:
    assert kfmt("check", ORDERS, "--kafka-version", "four").code == 2
    with pytest.raises(UsageError, match="is not a version of Kafka"):
        check(ORDERS, kafka_version="four")


@pytest.mark.parametrize(
    ("name", "nearest", "message"),
    [
        ("4.2", "4.2", "for Kafka 4.2, from --kafka-version"),
        ("4.2.1", "4.2", "for Kafka 4.2, from --kafka-version"),
        ("3.8", "3.9", "for Kafka 3.9, the nearest to 3.8 that kfmt knows"),
        ("9.9", NAMES[-1], f"for Kafka {NAMES[-1]}, the nearest to 9.9 that kfmt knows"),
    ],
)
def test_a_version_without_predictions_is_read_as_the_nearest(
    name: str, nearest: str, message: str
) -> None:
    result = kfmt("check", BROKER, "--kafka-version", name)
    assert message in " ".join(result.out.split())
    (row, *_) = check(ORDERS, kafka_version=name).of("broker_start")
    assert row["kafka_version"] == nearest


def test_no_level_is_unknown_to_a_version_that_kfmt_does_not_know(tmp_path: Path) -> None:
    log_directory = tmp_path / "data"
    shutil.copytree(BROKER, log_directory)
    set_level(log_directory / "__cluster_metadata-0", 99)
    assert "level 99" in start_reasons(log_directory, NAMES[-1])
    assert "level 99" not in start_reasons(log_directory, "9.9")


@pytest.mark.parametrize(
    ("version", "features"),
    [
        (
            "3.9",
            ["metadata.version", "eligible.leader", "group", "share", "streams", "transaction"],
        ),
        ("4.0", ["metadata.version", "share", "streams"]),
        ("4.1", ["metadata.version", "share", "streams"]),
        ("4.2", ["metadata.version", "share"]),
        ("4.4", []),
    ],
)
def test_levels_that_a_version_does_not_support(version: str, features: list[str]) -> None:
    """What a controller does with each feature: tests/interop/test_downgrades.py."""
    rows = kfmt("check", SAMPLES / "kafka-4.4.0", "--kafka-version", version, "--json")
    reasons = [row["reason"] for row in rows.of("broker_start") if not row["starts"]]
    reasons = [reason.partition(": ")[2] for reason in dict.fromkeys(reasons)]
    assert len(reasons) == len(features)
    for reason, feature in zip(reasons, features, strict=True):
        assert reason.startswith(feature)
    if version == "4.2":
        assert reasons[1] == (
            "share.version has level 2, which Kafka 4.2 does not support: Tried to apply "
            "FeatureLevelRecord FeatureLevelRecord(name='share.version', featureLevel=2), but this "
            "controller only supports versions 0-1"
        )


def test_a_broker_that_is_no_controller_is_judged_by_metadata_version_alone(
    tmp_path: Path,
) -> None:
    shutil.copytree(SAMPLES / "kafka-4.4.0", tmp_path / "broker")
    for directory in ("d1", "d2"):
        path = tmp_path / "broker" / directory / "meta.properties"
        path.write_text(path.read_text().replace("node.id=1", "node.id=7"))
    rows = kfmt("check", tmp_path / "broker", "--kafka-version", "4.2", "--json")
    reasons = {row["reason"] for row in rows.of("broker_start") if not row["starts"]}
    assert not any("share.version" in reason for reason in reasons)
