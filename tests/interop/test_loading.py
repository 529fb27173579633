"""Which records of internal topics a broker cannot load, by the classes that load them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfmt_cli.broker.state.coordinator_loading import (
    NEW_COORDINATOR_OF_39,
    CoordinatorFailure,
    CoordinatorLoading,
)
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.log.log_opening import open_log
from kfmt_cli.log.record_stream import StreamedRecord, iter_records_and_findings
from tests.broker.test_coordinator_loading import CASES
from tests.support.coordinator_records import GROUPS, SHARES, random_groups, write_partition
from tests.support.metadata_cases import FAULTS, LOADED, write_log
from tools import kafka
from tools.loading import load_all

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
VERSIONS = (kafka.VERSION, kafka.NEWEST)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_image_refuses_these_records(tmp_path: Path, version: str) -> None:
    cases = FAULTS | {name: (records, "") for name, records in LOADED.items()}
    directories = [tmp_path / f"{i}" / "__cluster_metadata-0" for i in range(len(cases))]
    for directory, (records, _) in zip(directories, cases.values(), strict=True):
        directory.parent.mkdir()
        write_log(directory, records)
    results = load_all([("metadata", directory) for directory in directories], version)
    for (name, (records, reason)), result in zip(cases.items(), results, strict=True):
        assert (result.error is not None) == bool(reason), (name, result)
        if result.error is None or "Error generating new metadata image" in result.error:
            continue  # 3.9 applies a partition without its topic at the end of the records
        assert f"from offset {len(records) - 1}:" in result.error, name
        kafka_reason = "NullPointerException" if "NullPointer" in reason else reason
        assert kafka_reason.partition(" match")[0] in result.error, name


LOADER_BY_TOPIC = {GROUPS: "groups", SHARES: "shares", "__transaction_state": "transactions"}
N_SEQUENCES = 150


def failures(directory: Path) -> list[CoordinatorFailure]:
    """The records that coordinators cannot load, as kfmt says."""
    loading = CoordinatorLoading(directory.name.rpartition("-")[0])
    for log_file in list_directory(str(directory)).logs:
        with open_log(log_file, read_ahead=False) as log:
            for record in iter_records_and_findings(log, DecompressionLimit()):
                assert isinstance(record, StreamedRecord)
                loading.apply_record(record)
    return loading.failures


def compare(directories: list[Path], version: str, loader: str | None = None) -> None:
    """Compare with what Kafka's classes load. loader: another than that of the topic."""
    loaders = [loader or LOADER_BY_TOPIC[path.name.rpartition("-")[0]] for path in directories]
    results = load_all(list(zip(loaders, directories, strict=True)), version)
    for directory, loader_name, result in zip(directories, loaders, results, strict=True):
        name = version.rpartition(".")[0]
        if (name, loader_name) == ("3.9", "groups"):
            name = NEW_COORDINATOR_OF_39
        failure = next((each for each in failures(directory) if name in each.versions), None)
        expected = None if failure is None else failure.offset
        assert (result.offset, result.error is None) == (expected, failure is None), (
            directory.parent.name,
            failure,
            result,
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_coordinator_refuses_these_records(tmp_path: Path, version: str) -> None:
    directories = {
        name: write_partition(tmp_path / f"{i}" / f"{topic}-0", lines)
        for i, (name, (topic, lines, *_)) in enumerate(CASES.items())
        if topic != SHARES or version != kafka.VERSION
    }
    if version == kafka.VERSION:  # it reads any version as its last, if the bytes allow that
        of_unknown_version = directories.pop("a commit of an unknown version")
        compare([of_unknown_version], version, "classic groups")
    compare(list(directories.values()), version)
    if version == kafka.VERSION:
        of_groups = [path for path in directories.values() if path.name == f"{GROUPS}-0"]
        compare(of_groups, version, "classic groups")


@pytest.mark.fuzz
@pytest.mark.parametrize("version", ["3.9.1", "4.0.0", "4.1.0", "4.2.0", "4.3.1", "4.4.0"])
@pytest.mark.parametrize("seed", range(0, 2 * N_SEQUENCES, N_SEQUENCES))
def test_groups_in_any_order(tmp_path: Path, version: str, seed: int) -> None:
    directories = [
        write_partition(tmp_path / f"{i}" / f"{GROUPS}-0", random_groups(i))
        for i in range(seed, seed + N_SEQUENCES)
    ]
    compare(directories, version)
