"""`kfmt check` predicts what a real broker does at its start."""

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

StartRow = dict[str, object]
AFTER = {Start.CRASH: "crash", Start.CRASH_AT_END: "crash", Start.CLEAN: "clean-shutdown"}
_TOPIC = re.compile(r"/(given-?\d*)-0")


def cases_with_starts() -> list[tuple[Case, Start]]:
    """Each case with each kind of start: those of the claims, and more."""
    claims = [*LOG_CLAIMS, *RECORD_CLAIMS, *INDEX_CLAIMS, *DIRECTORY_CLAIMS]
    cases_ = []
    for claim in claims:
        if claim.settings or claim.instead:
            continue
        broken = claim.broken()
        description = f"{claim.code} {claim.description}"
        base = {736: "txn", 1500: "orders"}.get(broken.log_end, "")
        if base:
            cases_.append(Case(description, broken.files, base, claim.beside))
    cases_ += cases()
    return [(case, start) for case in cases_ for start in case.kinds]


def case_name(case: Case, start: Start) -> str:
    """The name of a case with a kind of start."""
    return f"{case.description} {case.of} {start.name}"


def predicted_starts(case: Case, start: Start, directory: Path, version: str) -> list[StartRow]:
    """The rows of `kfmt check` about the start on a log directory."""
    partition = directory / "given-0"
    partition.mkdir(parents=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
    for file, content in case.beside.items():
        if file.endswith("/"):
            (directory / file).mkdir()
        else:
            (directory / file).write_bytes(content)
    recovery_point = 0 if start is Start.CRASH else case.log_end
    (directory / RECOVERY_POINTS).write_text(f"0\n1\ngiven 0 {recovery_point}\n")
    if start is Start.CLEAN:
        (directory / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    version_options = ("--kafka-version", version.rpartition(".")[0])
    rows = kfmt("check", directory, "--json", "--jobs", "1", *version_options).of("broker_start")
    return [row for row in rows if row["after"] == AFTER[start]]


def broker_input(case: Case, start: Start) -> Given:
    """The same partition for a broker; the test requests the log's end only."""
    return Given(case.files, case.log_end, (), name=case_name(case, start))


def observe_cases(
    pairs: Sequence[tuple[Case, Start]], predictions: list[list[StartRow]], version: str
) -> list[Outcome | None]:
    """The outcome of each: those that keep a broker up share a start of each kind.

    Where a shared start fails, each case that the broker's errors name gets a start of its own.
    """
    separate = {
        i
        for i, (case, _) in enumerate(pairs)
        if case.beside or not all(row["starts"] for row in predictions[i])
    }
    while True:
        plans = [
            Plan(pairs[i][1], {"given": broker_input(*pairs[i])}, pairs[i][0].beside)
            for i in separate
        ]
        shared = {
            start: [i for i, pair in enumerate(pairs) if pair[1] is start and i not in separate]
            for start in Start
        }
        shared = {start: indexes for start, indexes in shared.items() if indexes}
        for start, indexes in shared.items():
            plans.append(Plan(start, {f"given{i}": broker_input(*pairs[i]) for i in indexes}))
        outcomes = observe(plans, version)
        failed = {
            int(item.removeprefix("given"))
            for outcome in outcomes[len(separate) :]
            if not outcome.up
            for error in outcome.errors
            for item in _TOPIC.findall(error)
        }
        if not failed:
            break
        separate |= failed
    results: list[Outcome | None] = [None] * len(pairs)
    for i, outcome in zip(separate, outcomes, strict=False):
        results[i] = outcome
    for indexes, outcome in zip(shared.values(), outcomes[len(separate) :], strict=True):
        for i in indexes:
            results[i] = outcome
    return results


def difference(rows: list[StartRow], outcome: Outcome, topic: str) -> str:
    """The differences between the predicted and the observed start; empty if there are none."""
    is_up = all(row["starts"] for row in rows)
    if is_up != outcome.up:
        return f"said up: {is_up}, seen up: {outcome.up}, {outcome.errors[:1]}"
    if not is_up:
        return ""
    start_row = next((row for row in rows if str(row["file"]).endswith("given-0")), None)
    if start_row is None:
        return "nothing was said"
    partition = outcome.partitions[topic]
    truncated = {k: v for k, v in partition.logs.items() if v < partition.logs_before.get(k, 0)}
    deleted_logs = set(partition.logs_before) - set(partition.logs)
    predicted_sizes = {item["file"].rpartition("/")[2]: item["size"] for item in start_row["cut"]}  # type: ignore[attr-defined]
    deleted = {item.rpartition("/")[2] for item in start_row["deleted"]}  # type: ignore[attr-defined]
    predicted_deleted = {item for item in deleted if item.endswith(".log")}
    comparisons = {
        "log end": (start_row["log_end_offset"], partition.log_end),
        "cut": (predicted_sizes, truncated),
        "deleted": (predicted_deleted, deleted_logs),
        "other files deleted": ({item for item in deleted if item in partition.files}, set()),
    }
    return "; ".join(f"{k}: {a}, seen {b}" for k, (a, b) in comparisons.items() if a != b)


CASES = {
    f"{case_name(case, start)} {version}": (case, start, version)
    for version in (kafka.VERSION, kafka.NEWEST)
    for case, start in cases_with_starts()
}
_SMOKE = [
    *(f"nothing {base} {start}" for base in ("orders", "txn") for start in ("CRASH", "CLEAN")),
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
def observed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[list[StartRow], Outcome]]:
    """The predicted rows and the observed outcome of each selected case."""
    directory = tmp_path_factory.mktemp("told")
    names = [str(name) for name in selected(request, "name")]
    observed_by_name: dict[str, tuple[list[StartRow], Outcome]] = {}
    for version in (kafka.VERSION, kafka.NEWEST):
        version_names = [name for name in names if CASES[name][2] == version]
        pairs = [CASES[name][:2] for name in version_names]
        predictions = [
            predicted_starts(case, start, directory / version / str(i), version)
            for i, (case, start) in enumerate(pairs)
        ]
        outcomes = observe_cases(pairs, predictions, version)
        assert None not in outcomes
        observed_by_name |= {
            name: (rows, outcome)
            for name, rows, outcome in zip(version_names, predictions, outcomes, strict=True)
            if outcome is not None
        }
    return observed_by_name


@pytest.mark.timeout(1800)  # the first test starts the brokers of all
@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_broker_does_what_check_said(
    name: str, observed: dict[str, tuple[list[StartRow], Outcome]]
) -> None:
    rows, outcome = observed[name]
    input_name = case_name(*CASES[name][:2])
    topics = [
        topic for topic in outcome.partitions if outcome.partitions[topic].given.name == input_name
    ]
    assert difference(rows, outcome, topics[0] if topics else "") == ""
