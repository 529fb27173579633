"""The segments that `kfmt retention` says go are those that a real broker deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.retention_cases import Case, age, cases
from tests.support.samples import kfmt
from tools import kafka
from tools.broker import CLEAN_SHUTDOWN
from tools.observe import Given, Plan, Start, observe

CHECKS = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "clock": "system",
}


def told(case: Case, folder: Path) -> tuple[set[str], str]:
    """The logs that go as kfmt says, and why the active one is rolled."""
    partition = folder / "given-0"
    partition.mkdir(parents=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
    for file, by in case.stale.items():
        age(str(partition / file), by)
    for file, content in case.beside.items():
        (folder / file).write_bytes(content)
    (folder / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    (folder / "topic").write_text("\n".join(f"{k}={v}" for k, v in case.settings.items()))
    done = kfmt("retention", partition, "--json", "--config", folder / "topic")
    rows = done.of("retention")
    gone = {row["file"].rpartition("/")[2] for row in rows if row["deletable"]}
    assert {row["active"] for row in rows[:-1]} <= {False}
    return gone, done.of("roll")[0]["reason"]


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
def test_a_broker_deletes_what_was_foretold(tmp_path: Path) -> None:
    every = list(cases())
    assert len(every) > 25
    said = [told(case, tmp_path / str(i)) for i, case in enumerate(every)]
    plans = []
    for case in every:
        end = 736 if "transactions" in case.what or "cut" in case.what else 1500
        given = Given(case.files, end, (), settings=case.settings, stale=case.stale, pause=4)
        # Of compacted topics, the cleaner's thread deletes segments.
        cleans = {"log.cleaner.enable": str("cleanup.policy" in case.settings).lower()}
        plans.append(Plan(Start.CLEAN, {"given": given}, case.beside, server=CHECKS | cleans))
    wrong = {}
    for case, (gone, reason), outcome in zip(every, said, observe(plans), strict=True):
        assert outcome.up, (case.what, outcome.errors)
        became = outcome.partitions["given"]
        deleted = set(became.logs_before) - set(became.logs)
        rolled = bool(set(became.logs) - set(became.logs_before))
        if deleted != gone or rolled != (reason == "retention"):
            wrong[case.what] = (sorted(gone), reason, sorted(deleted), sorted(became.logs))
    assert not wrong, "\n".join(f"{case}: {words}" for case, words in wrong.items())
