"""What `kfmt check` says of a start is what a real broker then does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.claims_of_directories import DIRECTORY_CLAIMS
from tests.support.claims_of_indexes import INDEX_CLAIMS
from tests.support.claims_of_logs import LOG_CLAIMS
from tests.support.claims_of_records import RECORD_CLAIMS
from tests.support.samples import kfmt
from tests.support.selected import selected, with_smoke
from tests.support.start_cases import Case, cases
from tools import kafka
from tools.broker import CLEAN_SHUTDOWN
from tools.observe import RECOVERY_POINTS, Given, Outcome, Plan, Start, observe

Told = dict[str, object]
AFTER = {Start.CRASH: "crash", Start.CRASH_AT_END: "crash", Start.CLEAN: "clean-shutdown"}
_TOPIC = re.compile(r"/(given-?\d*)-0")


def every_case() -> list[tuple[Case, Start]]:
    """Each case with each kind of start: those of the claims, and more."""
    claims = [*LOG_CLAIMS, *RECORD_CLAIMS, *INDEX_CLAIMS, *DIRECTORY_CLAIMS]
    found = []
    for claim in claims:
        if claim.settings or claim.instead:
            continue
        broken = claim.broken()
        what = f"{claim.code} {claim.what}"
        of = {736: "txn", 1500: "orders"}.get(broken.log_end, "")
        if of:
            found.append(Case(what, broken.files, of, claim.beside))
    found += cases()
    return [(case, start) for case in found for start in case.kinds]


def named(case: Case, start: Start) -> str:
    """What a case is called."""
    return f"{case.what} {case.of} {start.name}"


def told(case: Case, start: Start, folder: Path, version: str) -> list[Told]:
    """What kfmt says of the start of a log directory."""
    partition = folder / "given-0"
    partition.mkdir(parents=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
    for file, content in case.beside.items():
        if file.endswith("/"):
            (folder / file).mkdir()
        else:
            (folder / file).write_bytes(content)
    point = 0 if start is Start.CRASH else case.log_end
    (folder / RECOVERY_POINTS).write_text(f"0\n1\ngiven 0 {point}\n")
    if start is Start.CLEAN:
        (folder / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    named = ("--kafka-version", version.rpartition(".")[0])
    rows = kfmt("check", folder, "--json", "--jobs", "1", *named).of("broker_start")
    return [row for row in rows if row["after"] == AFTER[start]]


def given(case: Case, start: Start) -> Given:
    """The same for a broker, which is asked for the log's end only."""
    return Given(case.files, case.log_end, (), name=named(case, start))


def seen(
    found: Sequence[tuple[Case, Start]], said: list[list[Told]], version: str
) -> list[Outcome | None]:
    """What became of each: those that keep a broker up share a start of each kind.

    Where others went down together, each that the broker complained of gets a start of its own.
    """
    alone = {
        i
        for i, (case, _) in enumerate(found)
        if case.beside or not all(row["starts"] for row in said[i])
    }
    while True:
        plans = [Plan(found[i][1], {"given": given(*found[i])}, found[i][0].beside) for i in alone]
        shared = {
            start: [i for i, pair in enumerate(found) if pair[1] is start and i not in alone]
            for start in Start
        }
        shared = {start: its for start, its in shared.items() if its}
        for start, its in shared.items():
            plans.append(Plan(start, {f"given{i}": given(*found[i]) for i in its}))
        outcomes = observe(plans, version)
        down = {
            int(item.removeprefix("given"))
            for outcome in outcomes[len(alone) :]
            if not outcome.up
            for words in outcome.errors
            for item in _TOPIC.findall(words)
        }
        if not down:
            break
        alone |= down
    became: list[Outcome | None] = [None] * len(found)
    for i, outcome in zip(alone, outcomes, strict=False):
        became[i] = outcome
    for its, outcome in zip(shared.values(), outcomes[len(alone) :], strict=True):
        for i in its:
            became[i] = outcome
    return became


def difference(said: list[Told], outcome: Outcome, topic: str) -> str:
    """How what was said differs from what was seen; nothing where it does not."""
    up = all(row["starts"] for row in said)
    if up != outcome.up:
        return f"said up: {up}, seen up: {outcome.up}, {outcome.errors[:1]}"
    if not up:
        return ""
    its = next((row for row in said if str(row["file"]).endswith("given-0")), None)
    if its is None:
        return "nothing was said"
    became = outcome.partitions[topic]
    cut = {k: v for k, v in became.logs.items() if v < became.logs_before.get(k, 0)}
    gone = set(became.logs_before) - set(became.logs)
    said_cut = {item["file"].rpartition("/")[2]: item["size"] for item in its["cut"]}  # type: ignore[attr-defined]
    deleted = {item.rpartition("/")[2] for item in its["deleted"]}  # type: ignore[attr-defined]
    said_gone = {item for item in deleted if item.endswith(".log")}
    answers = {
        "log end": (its["log_end_offset"], became.log_end),
        "cut": (said_cut, cut),
        "deleted": (said_gone, gone),
        "other files deleted": ({item for item in deleted if item in became.files}, set()),
    }
    return "; ".join(f"{k}: {a}, seen {b}" for k, (a, b) in answers.items() if a != b)


CASES = {
    f"{named(case, start)} {version}": (case, start, version)
    for version in (kafka.VERSION, kafka.NEWEST)
    for case, start in every_case()
}
_SMOKE = [
    *(f"nothing {of} {start}" for of in ("orders", "txn") for start in ("CRASH", "CLEAN")),
    *(f"a bit orders {start.name}" for start in Start),
    "a length of 3 orders CRASH",
    "no middle segment orders CLEAN",
    "the last index has a position inside a batch orders CLEAN",
    "aborted, version 0003 txn CLEAN",
    "a file -5.log orders CRASH",
]
SMOKE = [
    *(f"{name} {kafka.VERSION}" for name in _SMOKE),
    *(f"a bit orders {start.name} {kafka.NEWEST}" for start in Start),
]


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[list[Told], Outcome]]:
    """What was said and what was seen of each selected case."""
    folder = tmp_path_factory.mktemp("told")
    names = [str(name) for name in selected(request, "name")]
    became: dict[str, tuple[list[Told], Outcome]] = {}
    for version in (kafka.VERSION, kafka.NEWEST):
        its = [name for name in names if CASES[name][2] == version]
        found = [CASES[name][:2] for name in its]
        said = [
            told(case, start, folder / version / str(i), version)
            for i, (case, start) in enumerate(found)
        ]
        outcomes = seen(found, said, version)
        assert None not in outcomes
        became |= {
            name: (rows, outcome)
            for name, rows, outcome in zip(its, said, outcomes, strict=True)
            if outcome is not None
        }
    return became


@pytest.mark.timeout(1800)  # the first test starts the brokers of all
@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_broker_does_what_check_said(
    name: str, started: dict[str, tuple[list[Told], Outcome]]
) -> None:
    said, outcome = started[name]
    of = named(*CASES[name][:2])
    topics = [topic for topic in outcome.partitions if outcome.partitions[topic].given.name == of]
    assert difference(said, outcome, topics[0] if topics else "") == ""
