"""Observations of a real broker support each sentence about a broker."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kfmt_cli.findings.codes import finding_code_by_name
from kfmt_cli.findings.finding import FindingCode
from tests.support.broken_partitions import ORDERS, TXN, DamagedPartition, sample
from tests.support.claim_facts import DOWN, SEEKS, Claim, Fact, Observation
from tests.support.claims_of_directories import DIRECTORY_CLAIMS
from tests.support.claims_of_indexes import INDEX_CLAIMS
from tests.support.claims_of_logs import LOG_CLAIMS
from tests.support.claims_of_records import RECORD_CLAIMS
from tests.support.samples import kfmt
from tools import kafka
from tools.observe import COMMITTED, UNCOMMITTED, Given, Outcome, Plan, Start, observe

CLAIMS = [*LOG_CLAIMS, *RECORD_CLAIMS, *INDEX_CLAIMS, *DIRECTORY_CLAIMS]
needs_kafka = pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
NO_CLAIM = {
    "decompression-limit": "a limit of kfmt",
    "records-limit": "a limit of kfmt",
    "file-vanished": "about the reading of files",
    "file-unreadable": "about the reading of files",
    "file-shrank": "about the reading of files",
    "file-access-denied": "about users; tests/interop/test_owners.py",
    "file-grew": "about the reading of files",
    "directory-unreadable": "about the reading of files",
    "index-entry-in-damage": "what becomes of the log decides",
    "time-index-timestamp-not-largest": "the samples have no batch whose timestamps allow it",
    "producers-unknown": "about what kfmt writes",
    "payload-malformed": "what kfmt decodes",
    "committed-offset-out-of-range": "about consumers; tests/interop/test_offset_ranges.py",
    "notes-crc-mismatch": "no broker's",
    "notes-malformed": "no broker's",
    "quorum-state-malformed": "nothing is said of a broker",
    "snapshot-header-missing": "nothing is said of a broker",
    "snapshot-footer-missing": "nothing is said of a broker",
    "partition-metadata-malformed": "nothing is said of a broker",
    "clean-shutdown-malformed": "nothing is said of a broker",
    "producer-sequence-gap": "nothing is said of a broker",
    "producer-sequence-repeated": "nothing is said of a broker",
    "producer-epoch-back": "nothing is said of a broker",
    "transaction-marker-alone": "nothing is said of a broker",
    "transaction-open": "nothing is said of a broker",
    "transaction-hanging": "nothing is said of a broker",
    "leader-epoch-back": "nothing is said of a broker",
    "leader-epoch-contradicted": "nothing is said of a broker",
    "snapshot-contradicted": "nothing is said of a broker",
    "checkpoint-above-end": "nothing is said of a broker",
    "checkpoint-without-partition": "nothing is said of a broker",
    "offsets-lost": "what is gone was gone before a start",
    "partition-twice": "nothing is said of a broker",
    "partition-set-aside": "what becomes of it is foretold: tests/interop/test_directories",
    "log-not-checked": "about the reading of files",
    "deleted-records-back": "nothing is said of a start",
    "owner-contradicted": "nothing is said of a broker",
    "changed-while-read": "nothing is said of a broker",
    "cluster-id-differs": "the start that fails is foretold: tests/interop/test_directories",
    "log-directory-nested": "tests/interop/test_plans starts brokers on them",
    "partition-misnamed": "what becomes of it is foretold: tests/interop/test_directories",
    "partition-missing": "its empty log is observed: tests/interop/test_directories",
    "replica-moving": "nothing is said of a start",
    "replica-missing": "its empty log is foretold: tests/interop/test_directories",
    "coordinator-load-fails": "each exception is Kafka's: tests/interop/test_loading",
    "transaction-unfinished": "the markers are observed: tests/interop/test_unfinished",
    "metadata-load-fails": "each exception is Kafka's: tests/interop/test_loading",
    "start-fails": "the reason of each is its own: tests/interop/test_start",
}

NOTHING_HAPPENS = {
    ("checkpoint-malformed: cleaner-offset-checkpoint", "CRASH"),
    ("checkpoint-malformed: cleaner-offset-checkpoint", "CLEAN"),
    ("snapshot-malformed: an older snapshot", "CRASH"),
    ("time-index-absent", "CRASH"),
    ("time-index-offset-not-in-log", "CLEAN"),
}
"""Claims that a broker starts, or delivers the same as without the damage."""


def claim_id(claim: Claim) -> str:
    """The name of a claim in test ids."""
    return f"{claim.code}: {claim.description}" if claim.description else claim.code


def expected_facts(claim: Claim, start: Start) -> tuple[Fact, ...]:
    """The facts that must hold after a start."""
    if start is Start.CRASH:
        return claim.crash
    return claim.at_end if start is Start.CRASH_AT_END else claim.clean + claim.advice


def start_sentence(code: FindingCode, start: Start) -> str | None:
    """The sentence about a start; for CRASH_AT_END, the advice."""
    if start is Start.CRASH:
        return code.after_crash
    return code.advice if start is Start.CRASH_AT_END else code.after_clean_shutdown


@cache
def index_timestamps(partition: Path) -> tuple[int, ...]:
    """The middle and the last timestamp of each time index of a sample."""
    timestamps: list[int] = []
    for file, content in sample(partition).items():
        if file.endswith(".timeindex") and content:
            entries = [item for item, _ in struct.iter_unpack(">qi", content)]
            timestamps += [entries[len(entries) // 2], entries[-1]]
    return tuple(timestamps)


def broker_input(broken: DamagedPartition, claim: Claim | None = None) -> Given:
    """The partition on which a broker starts, and the requests to it."""
    return Given(
        broken.files,
        broken.log_end,
        (UNCOMMITTED, COMMITTED) if broken.sample == TXN else (UNCOMMITTED,),
        SEEKS if broken.sample == ORDERS else (),
        index_timestamps(broken.sample),
        claim.settings if claim else {},
    )


Observed = dict[tuple[str, Start], Observation]


@pytest.fixture(scope="module")
def observed() -> Observed:
    """Every claim's partition after every start about which the claim has facts.

    All partitions that a broker comes up with share one start of each kind; the others, and those
    with files of the log directory, have a broker to themselves.
    """
    broken = {claim_id(claim): claim.broken() for claim in CLAIMS}
    samples = {damaged.sample.name: damaged for damaged in broken.values()}
    undamaged = {
        key: DamagedPartition(damaged_partition.sample, sample(damaged_partition.sample), 0, 0, 0)
        for key, damaged_partition in samples.items()
    }
    plans: list[Plan] = []
    plan_topics: dict[tuple[str, Start], tuple[int, str]] = {}
    for start in Start:
        partitions = {
            f"whole-{i}": broker_input(partition) for i, partition in enumerate(undamaged.values())
        }
        for i, key in enumerate(undamaged):
            plan_topics[key, start] = len(plans), f"whole-{i}"
        for i, claim in enumerate(CLAIMS):
            facts, key = expected_facts(claim, start), claim_id(claim)
            if facts and not needs_own_start(claim, facts):
                partitions[f"given-{i}"] = broker_input(broken[key], claim)
                plan_topics[key, start] = len(plans), f"given-{i}"
        retention = {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "200"}
        plans.append(Plan(start, partitions, server=retention))
    for start in Start:
        for claim in CLAIMS:
            facts, key = expected_facts(claim, start), claim_id(claim)
            if facts and needs_own_start(claim, facts):
                plan_topics[key, start] = len(plans), "given"
                own_partition = {"given": broker_input(broken[key], claim)}
                plans.append(Plan(start, own_partition, claim.beside, claim.instead))
    outcomes = observe(plans)
    for outcome in outcomes[: len(Start)]:
        assert outcome.up, outcome.errors
    return {
        (key, start): partition_after_start(broken[key], start, outcomes, plan_topics, (key, start))
        for key, start in plan_topics
        if key in broken
    }


def needs_own_start(claim: Claim, facts: tuple[Fact, ...]) -> bool:
    """Whether a claim needs a start of its own."""
    return DOWN in facts or bool(claim.beside or claim.instead)


def partition_after_start(
    broken: DamagedPartition,
    start: Start,
    outcomes: list[Outcome],
    plan_topics: dict[tuple[str, Start], tuple[int, str]],
    key: tuple[str, Start],
) -> Observation:
    """A partition after a start, next to the undamaged one."""
    plan_index, topic = plan_topics[key]
    undamaged_plan, undamaged_topic = plan_topics[broken.sample.name, start]
    recovered_plan, recovered_topic = plan_topics[broken.sample.name, Start.CRASH]
    return Observation(
        broken,
        outcomes[plan_index],
        outcomes[undamaged_plan].partitions[undamaged_topic],
        outcomes[recovered_plan].partitions[recovered_topic].files,
        outcomes[plan_index].partitions.get(topic),
    )


@pytest.mark.brokers
@pytest.mark.timeout(1800)  # the first test starts the brokers of all
@pytest.mark.interop
@needs_kafka
@pytest.mark.parametrize("claim", CLAIMS, ids=claim_id)
def test_a_broker_behaves_as_claimed(claim: Claim, observed: Observed) -> None:
    for start in Start:
        for fact in expected_facts(claim, start):
            observation = observed[claim_id(claim), start]
            assert fact.holds(observation), (start.name, fact.text, description(observation))


@pytest.mark.brokers
@pytest.mark.timeout(1800)
@pytest.mark.interop
@needs_kafka
def test_each_claim_can_fail(observed: Observed) -> None:
    """It fails for an undamaged partition, or for a damaged one that no broker has changed."""
    unfailing = set()
    for (claim, start), observation in observed.items():
        facts = expected_facts(
            next(candidate for candidate in CLAIMS if claim_id(candidate) == claim), start
        )
        outcome = Outcome(True, [], {}, [])
        untouched = replace(
            observation.undamaged,
            given=broker_input(observation.broken),
            files=observation.broken.files,
        )
        for partition in (observation.undamaged, untouched):
            other = Observation(
                observation.broken, outcome, observation.undamaged, observation.recovered, partition
            )
            if not all(fact.holds(other) for fact in facts):
                break
        else:
            unfailing.add((claim, start.name))
    assert unfailing == NOTHING_HAPPENS


def description(observation: Observation) -> str:
    """The observed state, for a failure message."""
    if not observation.outcome.up:
        return f"the broker did not start: {observation.outcome.errors[:1]}"
    partition = observation.became
    reads = [
        (isolation, read.position, read.error, len(read.offsets))
        for isolation, read in partition.reads.items()
    ]
    seeks = [seek.offsets[:1] for seek in partition.seeks]
    lost_offsets = sorted(observation.lost_offsets())
    return (
        f"log end {partition.log_end}, logs {partition.logs_before} became {partition.logs}, "
        f"reads {reads}, lost {lost_offsets[:3]}..{lost_offsets[-3:]}, seeks {seeks}, "
        f"times {partition.times} for {observation.undamaged.times}, "
        f"files { {k: len(v) for k, v in partition.files.items()} }"
    )


CODES = finding_code_by_name()


@pytest.mark.parametrize("code", CODES)
def test_each_clause_about_a_broker_has_a_fact_and_each_fact_a_clause(code: str) -> None:
    claims = [claim for claim in CLAIMS if claim.code == code]
    sentences = {name: start_sentence(CODES[code], name) for name in (Start.CRASH, Start.CLEAN)}
    if code in NO_CLAIM:
        assert not claims
        assert set(sentences.values()) == {None}
        return
    assert claims
    for start, sentence in sentences.items():
        facts = {
            fact.text
            for claim in claims
            for fact in (claim.crash if start is Start.CRASH else claim.clean)
        }
        assert sentence is not None
        lower_sentence = sentence.lower()
        assert [fact for fact in facts if fact.lower() not in lower_sentence] == []
        for clause in re.split(r"[.;] ", lower_sentence):
            assert any(fact.lower() in clause for fact in facts), clause
    advised_facts = {fact.text for claim in claims for fact in claim.advice + claim.at_end}
    assert [text for text in advised_facts if text not in (CODES[code].advice or "")] == []


def test_kfmt_finds_what_the_claims_are_about(tmp_path: Path) -> None:
    checked_claims = [claim for claim in CLAIMS if claim.checked]
    for i, claim in enumerate(checked_claims):
        (tmp_path / f"given-{i}").mkdir()
        for file, content in claim.broken().files.items():
            (tmp_path / f"given-{i}" / file).write_bytes(content)
    codes_by_partition: dict[str, set[str]] = {}
    commands: list[list[str | Path]] = [
        ["verify-crc", "--deep", tmp_path],
        ["index-check", tmp_path],
    ]
    commands.append(["dump", *tmp_path.glob("*/*.snapshot")])
    for command in commands:
        for row in kfmt(*command, "--json").of("finding"):
            match = re.search(r"given-\d+", row["file"])
            assert match
            codes_by_partition.setdefault(match[0], set()).add(row["code"])
    missing = [
        (claim_id(claim), codes_by_partition.get(f"given-{i}"))
        for i, claim in enumerate(checked_claims)
        if claim.code not in codes_by_partition.get(f"given-{i}", set())
    ]
    assert missing == []
