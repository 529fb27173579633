"""Rebuilt indexes are those of a real broker that recovered the same logs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kfmt_cli.errors import UsageError
from kfmt_cli.writers.broker_lock import require_unlocked
from tests.support.combined_cases import Combined, combined
from tests.support.samples import ORDERS, TXN, kfmt
from tests.writers.test_rebuild_index import NEVER, copied, overlapping
from tools import broker, kafka
from tools.judge import Judged, Loading, judge

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
# KRaft's own log is not loaded as others are; remote storage has other names.
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
    outs = [tmp_path / f"broker-{i}" for i in range(len(jobs))]
    broker.recover_all(
        [
            (partition, out, {"index.interval.bytes": interval})
            for (partition, interval), out in zip(jobs, outs, strict=True)
        ]
    )
    compared = 0
    for i, ((partition, interval), theirs) in enumerate(zip(jobs, outs, strict=True)):
        compared += compare(partition, interval, theirs, tmp_path / f"kfmt-{i}")
    assert compared > 300


def compare(partition: Path, interval: str, theirs: Path, ours: Path) -> int:
    """Compare what kfmt rebuilds of a partition with what a broker did; how many files."""
    done = kfmt("rebuild-index", partition, ours, "--index-interval-bytes", interval, *NEVER)
    assert done.code == 0, done.err
    files = {
        path.name: path.read_bytes()
        for path in theirs.iterdir()
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot")
    }
    mine = {path.name: path.read_bytes() for path in ours.iterdir()}
    if not sum(log.stat().st_size for log in partition.glob("*.log")):
        files = {name: data for name, data in files.items() if not name.endswith(".snapshot")}
    assert sorted(mine) == sorted(files), (partition, interval)
    for name, data in files.items():
        assert mine[name] == data, (partition, interval, name)
    return len(files)


@pytest.mark.brokers
def test_overlaps_and_later_beginnings_are_rebuilt_as_by_a_broker(tmp_path: Path) -> None:
    txn_at = first_open_transaction(TXN)
    partitions = [
        overlapping(tmp_path / "orders", ORDERS, 100),
        overlapping(tmp_path / "txn", TXN, txn_at),
        copied(ORDERS.parent, tmp_path / "later"),
        copied(ORDERS.parent, tmp_path / "gap"),
    ]
    (partitions[2] / ORDERS.name).unlink()
    (partitions[3] / f"{480:020}.log").unlink()
    outs = [tmp_path / f"broker-{partition.name}" for partition in partitions]
    broker.recover_all(
        [(partition, out, {}) for partition, out in zip(partitions, outs, strict=True)]
    )
    for partition, out in zip(partitions, outs, strict=True):
        logs = {path.name: path.stat().st_size for path in partition.glob("*.log")}
        assert (
            logs.items() <= {path.name: path.stat().st_size for path in out.glob("*.log")}.items()
        )
        assert compare(partition, "4096", out, tmp_path / f"kfmt-{partition.name}") > 2


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
        refused = None
        while refused is None and not running.done():
            try:
                require_unlocked(partition)
            except UsageError as error:
                refused = str(error)
            time.sleep(0.01)
        assert running.result()
    assert refused is not None
    assert f"{data / '.lock'} is held by a broker" in refused
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
    """Logs with two and three damages, without indexes: what Kafka's own UnifiedLog writes."""
    loads = []
    for case in filter(has_log, combined(1, 60)):
        logs = {
            name: data for name, data in case.files.items() if name.endswith((".log", *SWAPPED))
        }
        loads.append(Loading(logs, is_clean=False, is_closed=True, is_now=is_now))
    compared = 0
    for i, (given, judged) in enumerate(zip(loads, judge(loads, version), strict=True)):
        if not judged.starts:
            continue
        partition, out = tmp_path / str(i) / "given-0", tmp_path / str(i) / "out"
        partition.mkdir(parents=True)
        for name, data in given.files.items():
            (partition / name).write_bytes(data)
        assert kfmt(
            "rebuild-index", partition, out, "--as-started", *(() if is_now else NEVER)
        ).code in (0, 1)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == written(judged), given
        compared += 1
    assert compared > 40


def has_log(case: Combined) -> bool:
    """Whether kfmt finds a log by its name, not only one that a broker would rename."""
    return any(len(name) == 24 and name.endswith(".log") for name in case.files)


def written(judged: Judged) -> dict[str, bytes]:
    """What Kafka's code wrote; an empty transaction index says the same as none."""
    return {
        name: content
        for name, content in judged.contents.items()
        if name.endswith(WRITTEN) and (content or not name.endswith(".txnindex"))
    }


def test_what_a_start_leaves_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    """Damaged partitions with their indexes and snapshots, after a crash."""
    loads = [
        Loading(dict(case.files), is_clean=False, is_closed=True, log_start=case.log_start)
        for case in combined(4, 40)
        if not case.log_start and has_log(case)
    ]
    compared = 0
    for i, (given, judged) in enumerate(zip(loads, judge(loads), strict=True)):
        partition, out = tmp_path / str(i) / "given-0", tmp_path / str(i) / "out"
        partition.mkdir(parents=True)
        for name, data in given.files.items():
            (partition / name).write_bytes(data)
        done = kfmt("rebuild-index", partition, out, "--as-started", *NEVER)
        assert done.code in ((0, 1) if judged.starts else (3,)), done.err
        if judged.starts:
            assert {path.name: path.read_bytes() for path in out.iterdir()} == written(judged)
            compared += 1
        else:
            assert not out.exists()
    assert compared > 25
