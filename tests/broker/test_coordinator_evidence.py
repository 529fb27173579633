"""Transactions whose markers are lost end as their coordinator decided, or it is said that their
outcome is unknown: in real samples, and in generated histories with two clocks."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kfmt_cli.broker.transactions.coordinator_log import Decision, ProducerHistory
from kfmt_cli.broker.transactions.decision_matching import Ending, find_decision
from kfmt_cli.formats.control import ABORT, COMMIT
from tests.broker.test_transaction_evidence import markers
from tests.support.samples import kfmt
from tools.kafka import SAMPLES

BROKER_1, BROKER_2 = SAMPLES / "kafka-3.9.1-broker1", SAMPLES / "kafka-3.9.1-broker2"
KAFKA_44 = SAMPLES / "kafka-4.4.0"
OUTCOMES = {COMMIT: "committed", ABORT: "aborted"}


def log_directory(directory: Path, partition: Path, *coordinator_logs: Path) -> Path:
    """A log directory with a partition's logs, without the other files, and with coordinators'
    logs; returns the partition's log."""
    (directory / partition.name).mkdir(parents=True)
    for coordinator_log in coordinator_logs:
        shutil.copytree(coordinator_log, directory / coordinator_log.name)
    logs = [shutil.copy(log, directory / partition.name) for log in sorted(partition.glob("*.log"))]
    return Path(logs[0])


def outcomes(partition: Path, *others: Path) -> dict[tuple[int, int], tuple[str, str | None]]:
    """How the transactions of a partition ended, and the evidence."""
    rows = kfmt("txn", partition, *others, "--json").of("transaction")
    return {
        (row["producer_id"], row["first_offset"]): (row["outcome"], row["evidence"])
        for row in rows
        if row["first_offset"] is not None and row["file"] == str(partition)
    }


@pytest.mark.parametrize(
    ("partition", "coordinator_log", "others", "n_unknown"),
    [
        (BROKER_1 / "txn-0", BROKER_1 / "__transaction_state-0", (), 4),
        (BROKER_1 / "txn-0", BROKER_1 / "__transaction_state-0", (BROKER_2,), 0),
        (BROKER_2 / "txn-1", BROKER_2 / "__transaction_state-1", (BROKER_1,), 0),
        (KAFKA_44 / "d1/k-txn-0", KAFKA_44 / "d1/__transaction_state-1", (KAFKA_44 / "d2",), 0),
    ],
    ids=["one log directory", "both", "other", "version 2"],
)
def test_a_lost_marker_is_known_from_the_coordinators_log(
    partition: Path, coordinator_log: Path, others: tuple[Path, ...], n_unknown: int, tmp_path: Path
) -> None:
    log = log_directory(tmp_path, partition, coordinator_log)
    undamaged, data = outcomes(log.parent), log.read_bytes()
    starts = markers(data)
    found: list[str | None] = []
    for start in starts[4 :: len(starts) // 4]:
        log.write_bytes(data[:start] + bytes(78) + data[start + 78 :])
        for key, (outcome, evidence) in outcomes(log.parent, *others).items():
            if evidence != "marker" and outcome != "open":
                assert outcome in (undamaged[key][0], "unknown")
                found.append(evidence)
    assert found.count("coordinator log") >= 3
    assert found.count(None) <= n_unknown


def test_commands_read_what_the_coordinator_decided(tmp_path: Path) -> None:
    coordinator_logs = BROKER_1 / "__transaction_state-0", BROKER_2 / "__transaction_state-1"
    log = log_directory(tmp_path, BROKER_1 / "txn-0", *coordinator_logs)
    read_committed = ("--isolation", "read_committed", "-f", "%o\\n")
    expected, data = kfmt("cat", log.parent, *read_committed).out, log.read_bytes()
    for start in markers(data)[3:60:7]:
        log.write_bytes(data[:start] + bytes(78) + data[start + 78 :])
        result = kfmt("cat", log.parent, *read_committed)
        assert result.out == expected
        assert "hides" not in result.err
    alone = log_directory(tmp_path / "alone", log.parent)
    result = kfmt("cat", alone.parent, *read_committed)
    assert "neither the files next to the logs nor a coordinator's log shows it" in result.err


def test_salvage_writes_the_marker_that_the_coordinator_decided(tmp_path: Path) -> None:
    """With the epoch of its transaction version: one above that of the records."""
    for source, topic in ((BROKER_2, "txn-1"), (KAFKA_44 / "d2", "k-txn-1")):
        coordinators_log = next(source.glob("__transaction_state-*"))
        log = log_directory(tmp_path / topic, source / topic, coordinators_log)
        data = log.read_bytes()
        rows = kfmt("dump", log, "--json").of("batch")
        producers = {
            row["producer_id"]
            for row in kfmt("state", coordinators_log, "--json").of("transactional_id")
        }
        lost = [row for row in rows if row["attributes"]["control"]][5:]
        marker = next(row for row in lost if row["producer_id"] in producers)
        start = marker["position"]
        log.write_bytes(data[:start] + bytes(78) + data[start + 78 :])
        salvaged = tmp_path / f"salvaged {topic}"
        kfmt("salvage", tmp_path / topic, salvaged)
        (restored,) = (
            row
            for row in kfmt("dump", salvaged / topic, "--json").of("batch")
            if row["base_offset"] == marker["base_offset"]
        )
        for name in ("producer_id", "producer_epoch", "attributes"):
            assert restored[name] == marker[name]


def test_a_log_of_another_cluster_shows_nothing(tmp_path: Path) -> None:
    log = log_directory(tmp_path, BROKER_1 / "txn-0", BROKER_1 / "__transaction_state-0")
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=one\n")
    other = tmp_path / "other"
    shutil.copytree(BROKER_1 / "__transaction_state-0", other / "__transaction_state-0")
    shutil.rmtree(tmp_path / "__transaction_state-0")
    start = markers(data := log.read_bytes())[4]
    log.write_bytes(data[:start] + bytes(78) + data[start + 78 :])
    found = outcomes(log.parent, other)
    assert "coordinator log" in {evidence for _, evidence in found.values()}
    (other / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=two\n")
    found = outcomes(log.parent, other)
    assert "coordinator log" not in {evidence for _, evidence in found.values()}


@dataclass
class GeneratedProducer:
    """A producer's transactions in a partition, and what its coordinator logged."""

    random: random.Random
    endings: list[Ending] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    index_by_ending: list[int] = field(default_factory=list)
    """Of the decision about each ending."""

    def generate(self, n_transactions: int) -> None:
        seed = self.random
        skew_ms, bumps_epoch = seed.choice((0, 0, 3, -40, 900, -20_000)), seed.random() < 0.3
        abort_share, pace_ms = seed.choice((0.0, 0.02, 0.3, 0.5)), seed.choice((5, 50, 5000))
        now_ms, epoch = 10**12, 0
        for _ in range(n_transactions):
            now_ms += seed.randrange(1, pace_ms)
            is_abort, is_fenced = seed.random() < abort_share, False
            records_epoch: int | None = epoch
            if is_abort and seed.random() < 0.2:
                is_fenced = True
            epoch += is_fenced + bumps_epoch
            control_type = ABORT if is_abort else COMMIT
            end_ms = now_ms + seed.randrange(1, pace_ms)
            self.decisions.append(Decision(control_type, epoch, bumps_epoch, now_ms, end_ms))
            marker_ms = seed.randrange(now_ms, end_ms + 1) + skew_ms
            if seed.random() < 0.05:
                records_epoch = None  # partitions are added before records are sent
            for _ in range(1 + (seed.random() < 0.02)):
                self.endings.append(Ending(records_epoch, control_type, epoch, marker_ms))
                self.index_by_ending.append(len(self.decisions) - 1)
                records_epoch = None  # the marker was written again after a failover
            now_ms = end_ms

    def lose(self, n_lost: int) -> None:
        """Lose markers, some of them with all of their transaction."""
        for _ in range(min(n_lost, len(self.endings) - 1)):
            i = self.random.randrange(len(self.endings))
            ending = self.endings[i]
            if ending.records_epoch is None or self.random.random() < 0.3:
                del self.endings[i], self.index_by_ending[i]
            else:
                self.endings[i] = ending._replace(control_type=None)
            if i < len(self.endings):
                n_before = self.endings[i].n_lost_before + ending.n_lost_before + 1
                self.endings[i] = self.endings[i]._replace(n_lost_before=n_before)
            for j in (i + 1,) if i + 1 < len(self.endings) else ():
                n_before = self.endings[j].n_lost_before + 1  # after it, in the same gap
                self.endings[j] = self.endings[j]._replace(n_lost_before=n_before)

    def forget(self) -> bool:
        """Remove the first decisions and the first endings, as compaction and retention do; returns
        whether all decisions are left."""
        n_endings = self.random.choice((0, 0, self.random.randrange(len(self.endings))))
        del self.endings[:n_endings], self.index_by_ending[:n_endings]
        if n_endings and self.endings:
            self.endings[0] = self.endings[0]._replace(n_lost_before=1 << 62)
        n_decisions = self.random.choice((0, 0, self.random.randrange(len(self.decisions))))
        self.decisions = self.decisions[n_decisions:]
        self.index_by_ending = [index - n_decisions for index in self.index_by_ending]
        if self.random.random() < 0.2:  # an older copy of the log
            del self.decisions[self.random.randrange(len(self.decisions) + 1) :]
        return n_decisions == 0


@pytest.mark.parametrize(
    ("first_seed", "n_seeds"), [(0, 300), pytest.param(1000, 5000, marks=pytest.mark.long)]
)
def test_no_outcome_is_wrong(first_seed: int, n_seeds: int) -> None:
    n_known = n_lost = 0
    for seed in range(first_seed, first_seed + n_seeds):
        producer = GeneratedProducer(random.Random(seed))
        producer.generate(producer.random.randrange(2, 40))
        all_decisions = list(producer.decisions)
        producer.lose(producer.random.randrange(1, 6))
        if not producer.endings:
            continue
        is_complete = producer.forget()
        n_forgotten = (
            0
            if is_complete
            else all_decisions.index(producer.decisions[0])
            if (producer.decisions)
            else len(all_decisions)
        )
        history = ProducerHistory(producer.decisions, is_complete)
        for i, ending in enumerate(producer.endings):
            if ending.control_type is None:
                decision = find_decision(producer.endings, i, history)
                n_lost += 1
                if decision is not None:
                    n_known += 1
                    expected = all_decisions[producer.index_by_ending[i] + n_forgotten]
                    assert decision.control_type == expected.control_type, (seed, i)
    assert n_known >= n_lost / 3, (n_known, n_lost)
