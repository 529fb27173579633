"""`kfmt retention` predicts the segments that a real broker deletes."""

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


MAX_SECONDS = 20


def predicted_deletion(case: Case, directory: Path) -> tuple[set[str], str]:
    """The logs that kfmt predicts to be deleted, and the reason to roll the active segment."""
    partition = directory / "given-0"
    partition.mkdir(parents=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
    for file, modified_ms in modification_times(case).items():
        os.utime(partition / file, (modified_ms / 1000, modified_ms / 1000))
    for file, content in case.beside.items():
        (directory / file).write_bytes(content)
    (directory / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    (directory / "topic").write_text("\n".join(f"{k}={v}" for k, v in case.settings.items()))
    result = kfmt(
        "retention", partition, "--json", "--config", directory / "topic", "--now", str(NOW)
    )
    rows = result.of("retention")
    deleted = {row["file"].rpartition("/")[2] for row in rows if row["deletable"]}
    assert {row["active"] for row in rows[:-1]} <= {False}
    return deleted, result.of("roll")[0]["reason"]


CASES = {case.description: case for case in cases()}
SMOKE = ["nothing is set", "2 expired", "bytes: half"]


def modification_times(case: Case) -> dict[str, int]:
    """The modification time of each file, in milliseconds."""
    return dict.fromkeys(case.files, NOW) | case.modified


def plan(case: Case) -> Plan:
    """The plan of a start on the partition."""
    end = 736 if "transactions" in case.description or "cut" in case.description else 1500
    broker_input = Given(
        case.files,
        end,
        (),
        settings=case.settings,
        modified=modification_times(case),
        pause=MAX_SECONDS,
    )
    # The cleaner's thread deletes segments of compacted topics.
    cleaner_settings = {"log.cleaner.enable": str("cleanup.policy" in case.settings).lower()}
    return Plan(Start.CLEAN, {"given": broker_input}, case.beside, server=CHECKS | cleaner_settings)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """The outcome of each selected case."""
    names = [str(name) for name in selected(request, "name")]
    plans = [plan(CASES[name]) for name in names]
    return dict(zip(names, observe(plans), strict=True))


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_broker_deletes_the_predicted_segments(
    name: str, outcomes: dict[str, Outcome], tmp_path: Path
) -> None:
    predicted, reason = predicted_deletion(CASES[name], tmp_path)
    outcome = outcomes[name]
    assert outcome.up, outcome.errors
    partition = outcome.partitions["given"]
    deleted = set(partition.logs_before) - set(partition.logs)
    rolled = bool(set(partition.logs) - set(partition.logs_before))
    assert (deleted, rolled) == (predicted, reason == "retention")
