"""`kfmt compaction` predicts the offsets that a real cleaner retains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compaction_cases import LARGEST_RECORDS, Case, cases, limited_case
from tests.support.samples import kfmt
from tests.support.selected import selected, with_smoke
from tools import kafka
from tools.broker import CLEAN_SHUTDOWN
from tools.observe import Files, Given, Outcome, Plan, Start, observe

# When the broker starts: days after the records.
NOW = 1_800_000_000_000
CLEANER = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "100",
    "clock": str(NOW),
}
MAX_SECONDS = 20
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001"}


def write_partition(directory: Path, files: Files) -> Path:
    """Write a partition directory."""
    partition = directory / "given-0"
    partition.mkdir(parents=True)
    for file, content in files.items():
        (partition / file).write_bytes(content)
    return partition


def checkpoint(case: Case) -> Files:
    """The cleaner's checkpoint, if the case has one."""
    if case.cleaned_to is None:
        return {}
    return {"cleaner-offset-checkpoint": f"0\n1\ngiven 0 {case.cleaned_to}\n".encode()}


def predicted_offsets(case: Case, directory: Path) -> list[list[int]]:
    """The offset intervals that remain according to kfmt."""
    partition = write_partition(directory, case.files)
    for file, content in checkpoint(case).items():
        (directory / file).write_bytes(content)
    (directory / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    settings = COMPACT | case.settings
    (directory / "topic").write_text("\n".join(f"{k}={v}" for k, v in settings.items()))
    ratio = settings["min.cleanable.dirty.ratio"]
    buffer = () if case.buffer_bytes is None else ("--dedupe-buffer-bytes", str(case.buffer_bytes))
    result = kfmt(
        *("compaction", partition, "--json", "--offsets", "--config", directory / "topic"),
        *("--min-cleanable-ratio", ratio, "--now", str(NOW)),
        *buffer,
    )
    (row,) = result.of("compaction")
    retained: list[list[int]] = row["remaining_offsets"]
    n_retained = sum(last - first + 1 for first, last in retained)
    assert n_retained == row["records_kept"]
    return retained


def offsets(partition: Path) -> list[list[int]]:
    """The offsets in the logs of a partition, as intervals."""
    rows = kfmt("dump", partition, "--records", "--json").of("record")
    ranges: list[list[int]] = []
    for offset in sorted(row["offset"] for row in rows):
        if ranges and offset == ranges[-1][1] + 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ranges


CASES = {case.description: case for case in cases()}
SMOKE = ["keys, null keys, tombstones", "transactions"]
UNCHANGED = {
    "nothing is dirty",
    "a lag that holds everything",
    "a ratio that is not reached",
    "kafka-2.8.2/v1-gzip-0",  # every record has a key of its own, or none
    "kafka-2.8.2/v2-lz4-0",
    "kafka-3.9.1-broker1/replicated-0",
}


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """The outcome of each selected case."""
    plans = {}
    for name in map(str, selected(request, "name")):
        case = CASES[name]
        settings = COMPACT | case.settings
        broker_input = Given(case.files, case.log_end, (), settings=settings, pause=MAX_SECONDS)
        server = CLEANER | case.server
        plans[name] = Plan(Start.CLEAN, {"given": broker_input}, checkpoint(case), server=server)
    return dict(zip(plans, observe(list(plans.values())), strict=True))


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_cleaner_retains_the_predicted_offsets(
    name: str, outcomes: dict[str, Outcome], tmp_path: Path
) -> None:
    predicted, outcome = predicted_offsets(CASES[name], tmp_path), outcomes[name]
    assert outcome.up, outcome.errors
    original = offsets(tmp_path / "given-0")
    remaining = offsets(write_partition(tmp_path / "after", outcome.partitions["given"].files))
    assert remaining == predicted
    assert (remaining == original) is (name in UNCHANGED)


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.brokers
@pytest.mark.parametrize("version", [kafka.VERSION, kafka.NEWEST])
def test_4_4_cleans_no_record_larger_than_the_limit(version: str) -> None:
    limited = [
        (limited_case(directory, size - excess), excess)
        for directory, size in LARGEST_RECORDS.items()
        for excess in (0, 1)
    ]
    plans = []
    for case, _ in limited:
        given = Given(case.files, case.log_end, settings=COMPACT | case.settings, pause=MAX_SECONDS)
        plans.append(Plan(Start.CLEAN, {"given": given}, server=CLEANER))
    for (case, excess), outcome in zip(limited, observe(plans, version), strict=True):
        became = outcome.partitions["given"]
        first_log = min(became.logs_before)
        is_unchanged = became.logs[first_log] == became.logs_before[first_log]
        assert is_unchanged is (excess == 1 and version == kafka.NEWEST), case.description
