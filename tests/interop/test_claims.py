"""Each sentence about a broker follows from what a real one was seen to do."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kfmt_cli.checks.registry import codes_by_name
from kfmt_cli.findings.finding import FindingCode
from tests.support.broken_partitions import ORDERS, TXN, Broken, sample
from tests.support.claim_facts import DOWN, SEEKS, Claim, Fact, Seen
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
    "file-grew": "about the reading of files",
    "directory-unreadable": "about the reading of files",
    "index-entry-in-damage": "what becomes of the log decides",
    "time-index-timestamp-not-largest": "the samples have no batch whose timestamps allow it",
    "producers-unknown": "about what kfmt writes",
    "payload-malformed": "what kfmt decodes",
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
    "replica-moving": "nothing is said of a start",
    "replica-missing": "its empty log is foretold: tests/interop/test_directories",
    "start-fails": "the reason of each is its own: tests/interop/test_start",
}

NOTHING_HAPPENS = {
    ("checkpoint-malformed: cleaner-offset-checkpoint", "CRASH"),
    ("checkpoint-malformed: cleaner-offset-checkpoint", "CLEAN"),
    ("snapshot-malformed: an older snapshot", "CRASH"),
    ("time-index-absent", "CRASH"),
    ("time-index-offset-not-in-log", "CLEAN"),
}
"""Claims that a broker starts, or delivers what it would have delivered anyway."""


def name_of(claim: Claim) -> str:
    """A claim in test ids."""
    return f"{claim.code}: {claim.what}" if claim.what else claim.code


def facts_of(claim: Claim, start: Start) -> tuple[Fact, ...]:
    """What must be seen after a start."""
    if start is Start.CRASH:
        return claim.crash
    return claim.at_end if start is Start.CRASH_AT_END else claim.clean + claim.advice


def sentence_of(code: FindingCode, start: Start) -> str | None:
    """The sentence about a start; what to do for the third one."""
    if start is Start.CRASH:
        return code.after_crash
    return code.advice if start is Start.CRASH_AT_END else code.after_clean_shutdown


@cache
def times(partition: Path) -> tuple[int, ...]:
    """The middle and the last timestamp of each time index of a sample."""
    found: list[int] = []
    for file, content in sample(partition).items():
        if file.endswith(".timeindex") and content:
            entries = [item for item, _ in struct.iter_unpack(">qi", content)]
            found += [entries[len(entries) // 2], entries[-1]]
    return tuple(found)


def given(broken: Broken, claim: Claim | None = None) -> Given:
    """What a broker is started on, and asked."""
    return Given(
        broken.files,
        broken.log_end,
        (UNCOMMITTED, COMMITTED) if broken.sample == TXN else (UNCOMMITTED,),
        SEEKS if broken.sample == ORDERS else (),
        times(broken.sample),
        claim.settings if claim else {},
    )


Observed = dict[tuple[str, Start], Seen]


@pytest.fixture(scope="module")
def observed() -> Observed:
    """Every claim's partition after every start that the claim has facts of.

    All partitions that a broker comes up with share one start of each kind; the others, and those
    with files of the log directory, have a broker to themselves.
    """
    broken = {name_of(claim): claim.broken() for claim in CLAIMS}
    samples = {each_broken.sample.name: each_broken for each_broken in broken.values()}
    wholes = {
        key: Broken(value.sample, sample(value.sample), 0, 0, 0) for key, value in samples.items()
    }
    plans: list[Plan] = []
    places: dict[tuple[str, Start], tuple[int, str]] = {}
    for start in Start:
        partitions = {f"whole-{i}": given(whole) for i, whole in enumerate(wholes.values())}
        for i, key in enumerate(wholes):
            places[key, start] = len(plans), f"whole-{i}"
        for i, claim in enumerate(CLAIMS):
            facts, key = facts_of(claim, start), name_of(claim)
            if facts and not alone(claim, facts):
                partitions[f"given-{i}"] = given(broken[key], claim)
                places[key, start] = len(plans), f"given-{i}"
        retention = {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "200"}
        plans.append(Plan(start, partitions, server=retention))
    for start in Start:
        for claim in CLAIMS:
            facts, key = facts_of(claim, start), name_of(claim)
            if facts and alone(claim, facts):
                places[key, start] = len(plans), "given"
                its = {"given": given(broken[key], claim)}
                plans.append(Plan(start, its, claim.beside, claim.instead))
    outcomes = observe(plans)
    for outcome in outcomes[: len(Start)]:
        assert outcome.up, outcome.errors
    return {
        (key, start): seen(broken[key], start, outcomes, places, (key, start))
        for key, start in places
        if key in broken
    }


def alone(claim: Claim, facts: tuple[Fact, ...]) -> bool:
    """Whether a claim needs a start of its own."""
    return DOWN in facts or bool(claim.beside or claim.instead)


def seen(
    broken: Broken,
    start: Start,
    outcomes: list[Outcome],
    places: dict[tuple[str, Start], tuple[int, str]],
    place: tuple[str, Start],
) -> Seen:
    """A partition after a start, next to the undamaged one."""
    at, topic = places[place]
    whole_at, whole = places[broken.sample.name, start]
    recovered_at, recovered = places[broken.sample.name, Start.CRASH]
    return Seen(
        broken,
        outcomes[at],
        outcomes[whole_at].partitions[whole],
        outcomes[recovered_at].partitions[recovered].files,
        outcomes[at].partitions.get(topic),
    )


@pytest.mark.brokers
@pytest.mark.timeout(1800)  # the first test starts the brokers of all
@pytest.mark.interop
@needs_kafka
@pytest.mark.parametrize("claim", CLAIMS, ids=name_of)
def test_a_broker_does_what_is_said_of_it(claim: Claim, observed: Observed) -> None:
    for start in Start:
        for fact in facts_of(claim, start):
            its = observed[name_of(claim), start]
            assert fact.holds(its), (start.name, fact.words, description(its))


@pytest.mark.brokers
@pytest.mark.timeout(1800)
@pytest.mark.interop
@needs_kafka
def test_each_claim_can_fail(observed: Observed) -> None:
    """It does where nothing was damaged, or where nothing was done about the damage."""
    cannot = set()
    for (claim, start), its in observed.items():
        facts = facts_of(
            next(each_claim for each_claim in CLAIMS if name_of(each_claim) == claim), start
        )
        outcome = Outcome(True, [], {}, [])
        untouched = replace(its.whole, given=given(its.broken), files=its.broken.files)
        for became in (its.whole, untouched):
            other = Seen(its.broken, outcome, its.whole, its.recovered, became)
            if not all(fact.holds(other) for fact in facts):
                break
        else:
            cannot.add((claim, start.name))
    assert cannot == NOTHING_HAPPENS


def description(seen: Seen) -> str:
    """What was seen instead."""
    if not seen.outcome.up:
        return f"the broker did not start: {seen.outcome.errors[:1]}"
    its = seen.became
    reads = [(how, read.position, read.error, len(read.offsets)) for how, read in its.reads.items()]
    seeks = [seek.offsets[:1] for seek in its.seeks]
    lost = sorted(seen.lost())
    return (
        f"log end {its.log_end}, logs {its.logs_before} became {its.logs}, reads {reads}, "
        f"lost {lost[:3]}..{lost[-3:]}, seeks {seeks}, times {its.times} for {seen.whole.times}, "
        f"files { {k: len(v) for k, v in its.files.items()} }"
    )


CODES = codes_by_name()


@pytest.mark.parametrize("code", CODES)
def test_each_clause_about_a_broker_has_a_fact_behind_it_and_each_fact_is_told(code: str) -> None:
    claims = [claim for claim in CLAIMS if claim.code == code]
    sentences = {name: sentence_of(CODES[code], name) for name in (Start.CRASH, Start.CLEAN)}
    if code in NO_CLAIM:
        assert not claims
        assert set(sentences.values()) == {None}
        return
    assert claims
    for start, sentence in sentences.items():
        facts = {
            fact.words
            for claim in claims
            for fact in (claim.crash if start is Start.CRASH else claim.clean)
        }
        assert sentence is not None
        low = sentence.lower()
        assert [fact for fact in facts if fact.lower() not in low] == []
        for clause in re.split(r"[.;] ", low):
            assert any(fact.lower() in clause for fact in facts), clause
    told = {fact.words for claim in claims for fact in claim.advice + claim.at_end}
    assert [text for text in told if text not in (CODES[code].advice or "")] == []


def test_kfmt_finds_what_the_claims_are_about(tmp_path: Path) -> None:
    checked = [claim for claim in CLAIMS if claim.checked]
    for i, claim in enumerate(checked):
        (tmp_path / f"given-{i}").mkdir()
        for file, content in claim.broken().files.items():
            (tmp_path / f"given-{i}" / file).write_bytes(content)
    found: dict[str, set[str]] = {}
    commands: list[list[str | Path]] = [
        ["verify-crc", "--deep", tmp_path],
        ["index-check", tmp_path],
    ]
    commands.append(["dump", *tmp_path.glob("*/*.snapshot")])
    for command in commands:
        for row in kfmt(*command, "--json").of("finding"):
            folder = re.search(r"given-\d+", row["file"])
            assert folder
            found.setdefault(folder[0], set()).add(row["code"])
    wrong = [
        (name_of(claim), found.get(f"given-{i}"))
        for i, claim in enumerate(checked)
        if claim.code not in found.get(f"given-{i}", set())
    ]
    assert wrong == []
