"""The offsets that `kfmt compaction` says remain are those that a real cleaner leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compaction_cases import Case, cases
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
MOST_SECONDS = 20
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001"}


def written(folder: Path, files: Files) -> Path:
    """A partition directory."""
    partition = folder / "given-0"
    partition.mkdir(parents=True)
    for file, content in files.items():
        (partition / file).write_bytes(content)
    return partition


def checkpoint(case: Case) -> Files:
    """The cleaner's, where it has one."""
    if case.cleaned_to is None:
        return {}
    return {"cleaner-offset-checkpoint": f"0\n1\ngiven 0 {case.cleaned_to}\n".encode()}


def told(case: Case, folder: Path) -> list[list[int]]:
    """What remains, as kfmt says."""
    partition = written(folder, case.files)
    for file, content in checkpoint(case).items():
        (folder / file).write_bytes(content)
    (folder / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    settings = COMPACT | case.settings
    (folder / "topic").write_text("\n".join(f"{k}={v}" for k, v in settings.items()))
    ratio = settings["min.cleanable.dirty.ratio"]
    buffer = () if case.buffer_bytes is None else ("--dedupe-buffer-bytes", str(case.buffer_bytes))
    done = kfmt(
        *("compaction", partition, "--json", "--offsets", "--config", folder / "topic"),
        *("--min-cleanable-ratio", ratio, "--now", str(NOW)),
        *buffer,
    )
    (row,) = done.of("compaction")
    remaining: list[list[int]] = row["remaining_offsets"]
    kept = sum(last - first + 1 for first, last in remaining)
    assert kept == row["records_kept"]
    return remaining


def offsets(partition: Path) -> list[list[int]]:
    """The offsets in the logs of a partition, as ranges."""
    rows = kfmt("dump", partition, "--records", "--json").of("record")
    found: list[list[int]] = []
    for item in sorted(row["offset"] for row in rows):
        if found and item == found[-1][1] + 1:
            found[-1][1] = item
        else:
            found.append([item, item])
    return found


CASES = {case.what: case for case in cases()}
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
    """What became of each selected case."""
    plans = {}
    for name in map(str, selected(request, "name")):
        case = CASES[name]
        settings = COMPACT | case.settings
        given = Given(case.files, case.log_end, (), settings=settings, pause=MOST_SECONDS)
        server = CLEANER | case.server
        plans[name] = Plan(Start.CLEAN, {"given": given}, checkpoint(case), server=server)
    return dict(zip(plans, observe(list(plans.values())), strict=True))


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.brokers))
def test_a_cleaner_leaves_what_was_foretold(
    name: str, outcomes: dict[str, Outcome], tmp_path: Path
) -> None:
    said, outcome = told(CASES[name], tmp_path), outcomes[name]
    assert outcome.up, outcome.errors
    before = offsets(tmp_path / "given-0")
    left = offsets(written(tmp_path / "after", outcome.partitions["given"].files))
    assert left == said
    assert (left == before) is (name in UNCHANGED)
