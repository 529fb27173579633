"""Rebuilt indexes equal those of a real broker that recovered the same logs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kfmt_cli.errors import UsageError
from kfmt_cli.writers.broker_lock import require_unlocked
from tests.support.combined_cases import CombinedCase, combined
from tests.support.samples import ORDERS, TXN, kfmt
from tests.writers.test_rebuild_index import NEVER, copied, overlapping
from tools import broker, kafka
from tools.judge import Judged, Loading, judge
from tools.not_files import place

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
# KRaft loads its own log in another way; remote storage names files differently.
PARTITIONS = sorted(
    {
        log.parent
        for log in kafka.SAMPLES.rglob("*.log")
        if log.parent.name != "__cluster_metadata-0" and "remote" not in log.parts
    }
)
OTHER_INTERVALS = {
    "txn-0": "1024",
    "compacted-0": "100",
    "upgraded-0": "1",
    "v1-none-0": "700",
    "v0-compacted-0": "64",
    "replicated-0": "100000",
}


@pytest.mark.brokers
def test_rebuilt_indexes_are_those_of_a_recovering_broker(tmp_path: Path) -> None:
    jobs = [(partition, "4096") for partition in PARTITIONS]
    jobs += [
        (partition, OTHER_INTERVALS[partition.name])
        for partition in PARTITIONS
        if partition.name in OTHER_INTERVALS
    ]
    outputs = [tmp_path / f"broker-{i}" for i in range(len(jobs))]
    broker.recover_all(
        [
            (partition, output, {"index.interval.bytes": interval})
            for (partition, interval), output in zip(jobs, outputs, strict=True)
        ]
    )
    n_compared = 0
    for i, ((partition, interval), kafka_directory) in enumerate(zip(jobs, outputs, strict=True)):
        n_compared += compare(partition, interval, kafka_directory, tmp_path / f"kfmt-{i}")
    assert n_compared > 300


def compare(partition: Path, interval: str, kafka_directory: Path, kfmt_directory: Path) -> int:
    """Compare the indexes that kfmt rebuilds with those of a broker; returns how many files."""
    result = kfmt(
        "rebuild-index", partition, kfmt_directory, "--index-interval-bytes", interval, *NEVER
    )
    assert result.code == 0, result.err
    files = {
        path.name: path.read_bytes()
        for path in kafka_directory.iterdir()
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot")
    }
    rebuilt = {path.name: path.read_bytes() for path in kfmt_directory.iterdir()}
    if not sum(log.stat().st_size for log in partition.glob("*.log")):
        files = {name: data for name, data in files.items() if not name.endswith(".snapshot")}
    assert sorted(rebuilt) == sorted(files), (partition, interval)
    for name, data in files.items():
        assert rebuilt[name] == data, (partition, interval, name)
    return len(files)


@pytest.mark.brokers
def test_overlaps_and_later_beginnings_are_rebuilt_as_by_a_broker(tmp_path: Path) -> None:
    txn_offset = first_open_transaction(TXN)
    partitions = [
        overlapping(tmp_path / "orders", ORDERS, 100),
        overlapping(tmp_path / "txn", TXN, txn_offset),
        copied(ORDERS.parent, tmp_path / "later"),
        copied(ORDERS.parent, tmp_path / "gap"),
    ]
    (partitions[2] / ORDERS.name).unlink()
    (partitions[3] / f"{480:020}.log").unlink()
    outputs = [tmp_path / f"broker-{partition.name}" for partition in partitions]
    broker.recover_all(
        [(partition, output, {}) for partition, output in zip(partitions, outputs, strict=True)]
    )
    for partition, output in zip(partitions, outputs, strict=True):
        logs = {path.name: path.stat().st_size for path in partition.glob("*.log")}
        assert (
            logs.items()
            <= {path.name: path.stat().st_size for path in output.glob("*.log")}.items()
        )
        assert compare(partition, "4096", output, tmp_path / f"kfmt-{partition.name}") > 2


def first_open_transaction(log: Path) -> int:
    """The offset of a batch inside of a transaction that began before it."""
    (transaction, *_) = kfmt("dump", log.with_suffix(".txnindex"), "--json").rows
    first, last = int(transaction["first_offset"]), int(transaction["last_offset"])
    offsets = [int(row["base_offset"]) for row in kfmt("dump", log, "--json").of("batch")]
    return next(offset for offset in offsets if first < offset <= last)


@pytest.mark.brokers
def test_in_place_sees_the_lock_of_a_running_broker(tmp_path: Path) -> None:
    data = tmp_path / "logs"
    data.mkdir()
    partition = data / f"{broker.topic(0)}-0"
    broker.copy(ORDERS.parent, partition, recover=True)
    require_unlocked(partition)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(broker.run, data, [{}], "read_uncommitted")
        message = None
        while message is None and not running.done():
            try:
                require_unlocked(partition)
            except UsageError as error:
                message = str(error)
            time.sleep(0.01)
        assert running.result()
    assert message is not None
    assert f"{data / '.lock'} is held by a broker" in message
    require_unlocked(partition)


SWAPPED = tuple(f"{name}.swap" for name in (".log", ".index", ".timeindex", ".txnindex"))
WRITTEN = (".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.mark.parametrize(
    ("is_now", "version"),
    [
        *((is_now, kafka.VERSION) for is_now in (False, True)),
        pytest.param(False, kafka.NEWEST, marks=pytest.mark.fuzz),
    ],
)
def test_damaged_logs_are_rebuilt_as_kafka_rebuilds_them(
    is_now: bool, version: str, tmp_path: Path
) -> None:
    """Logs with two and three damages and no indexes; Kafka's own UnifiedLog writes the expected
    files."""
    loadings = []
    for case in filter(has_log, combined(1, 60)):
        logs = {
            name: data for name, data in case.files.items() if name.endswith((".log", *SWAPPED))
        }
        loadings.append(Loading(logs, is_clean=False, is_closed=True, is_now=is_now))
    n_compared = 0
    for i, (loading, outcome) in enumerate(zip(loadings, judge(loadings, version), strict=True)):
        if not outcome.starts:
            continue
        partition, output = tmp_path / str(i) / "given-0", tmp_path / str(i) / "out"
        partition.mkdir(parents=True)
        for name, data in loading.files.items():
            place(partition / name, data)
        assert kfmt(
            "rebuild-index", partition, output, "--as-started", *(() if is_now else NEVER)
        ).code in (0, 1)
        assert {path.name: path.read_bytes() for path in output.iterdir()} == expected_files(
            outcome
        ), loading
        n_compared += 1
    assert n_compared > 40


def has_log(case: CombinedCase) -> bool:
    """Whether the case has a file with the name of a log, not only one that a broker renames."""
    return any(len(name) == 24 and name.endswith(".log") for name in case.files)


def expected_files(outcome: Judged) -> dict[str, bytes]:
    """The files that Kafka's code wrote; an empty transaction index equals none. Since 4.4, closing
    a log leaves the zeros that follow the entries."""
    return {
        name: without_preallocated_zeros(content)
        for name, content in outcome.contents.items()
        if name.endswith(WRITTEN) and (content or not name.endswith(".txnindex"))
    }


def without_preallocated_zeros(content: bytes) -> bytes:
    """The entries of an index that has its full size."""
    entry_size = {10 << 20: 8, (10 << 20) // 12 * 12: 12}.get(len(content))
    if entry_size is None:
        return content
    n_bytes = len(content.rstrip(b"\0"))
    return content[: n_bytes + -n_bytes % entry_size]


def test_files_as_after_a_start_equal_those_of_kafka(tmp_path: Path) -> None:
    """Damaged partitions with their indexes and snapshots, after a crash."""
    loadings = [
        Loading(dict(case.files), is_clean=False, is_closed=True, log_start=case.log_start)
        for case in combined(4, 40)
        if not case.log_start and has_log(case)
    ]
    n_compared = 0
    for i, (loading, outcome) in enumerate(zip(loadings, judge(loadings), strict=True)):
        partition, output = tmp_path / str(i) / "given-0", tmp_path / str(i) / "out"
        partition.mkdir(parents=True)
        for name, data in loading.files.items():
            place(partition / name, data)
        result = kfmt("rebuild-index", partition, output, "--as-started", *NEVER)
        assert result.code in ((0, 1) if outcome.starts else (3,)), result.err
        if outcome.starts:
            assert {path.name: path.read_bytes() for path in output.iterdir()} == expected_files(
                outcome
            )
            n_compared += 1
        else:
            assert not output.exists()
    assert n_compared > 25
