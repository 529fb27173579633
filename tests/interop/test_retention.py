"""The segments that `kfmt retention` says go are those that a real broker deletes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.retention_cases import NOW, Case, cases
from tests.support.samples import kfmt
from tests.support.selected import selected, with_smoke
from tools import kafka
from tools.broker import CLEAN_SHUTDOWN
from tools.observe import Given, Outcome, Plan, Start, observe

CHECKS = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "clock": str(NOW),
}


MOST_SECONDS = 20


def told(case: Case, folder: Path) -> tuple[set[str], str]:
    """The logs that go as kfmt says, and why the active one is rolled."""
    partition = folder / "given-0"
    partition.mkdir(parents=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
    for file, when in times(case).items():
        os.utime(partition / file, (when / 1000, when / 1000))
    for file, content in case.beside.items():
        (folder / file).write_bytes(content)
    (folder / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    (folder / "topic").write_text("\n".join(f"{k}={v}" for k, v in case.settings.items()))
    done = kfmt("retention", partition, "--json", "--config", folder / "topic", "--now", str(NOW))
    rows = done.of("retention")
    gone = {row["file"].rpartition("/")[2] for row in rows if row["deletable"]}
    assert {row["active"] for row in rows[:-1]} <= {False}
    return gone, done.of("roll")[0]["reason"]


CASES = {case.what: case for case in cases()}
SMOKE = ["nothing is set", "2 expired", "bytes: half"]


def times(case: Case) -> dict[str, int]:
    """When each file was changed last."""
    return dict.fromkeys(case.files, NOW) | case.modified


def plan(case: Case) -> Plan:
    """A start on the partition."""
    end = 736 if "transactions" in case.what or "cut" in case.what else 1500
    given = Given(
        case.files, end, (), settings=case.settings, modified=times(case), pause=MOST_SECONDS
    )
    # Of compacted topics, the cleaner's thread deletes segments.
    cleans = {"log.cleaner.enable": str("cleanup.policy" in case.settings).lower()}
    return Plan(Start.CLEAN, {"given": given}, case.beside, server=CHECKS | cleans)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """What became of each selected case."""
    names = [str(name) for name in selected(request, "name")]
    plans = [plan(CASES[name]) for name in names]
    return dict(zip(names, observe(plans), strict=True))


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_broker_deletes_what_was_foretold(
    name: str, outcomes: dict[str, Outcome], tmp_path: Path
) -> None:
    gone, reason = told(CASES[name], tmp_path)
    outcome = outcomes[name]
    assert outcome.up, outcome.errors
    became = outcome.partitions["given"]
    deleted = set(became.logs_before) - set(became.logs)
    rolled = bool(set(became.logs) - set(became.logs_before))
    assert (deleted, rolled) == (gone, reason == "retention")
