"""The offsets that `kfmt compaction` says remain are those that a real cleaner leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compaction_cases import Case, cases
from tests.support.samples import kfmt
from tools import kafka
from tools.broker import CLEAN_SHUTDOWN
from tools.observe import Files, Given, Plan, Start, observe

CLEANER = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "100",
    "clock": "system",
}
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
        *("--min-cleanable-ratio", ratio),
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


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
def test_a_cleaner_leaves_what_was_foretold(tmp_path: Path) -> None:
    every = list(cases())
    assert len(every) > 15
    said = [told(case, tmp_path / str(i)) for i, case in enumerate(every)]
    plans = []
    for case in every:
        given = Given(case.files, case.log_end, (), settings=COMPACT | case.settings, pause=5)
        server = CLEANER | case.server
        plans.append(Plan(Start.CLEAN, {"given": given}, checkpoint(case), server=server))
    wrong = {}
    n_cleaned = 0
    for i, (case, outcome) in enumerate(zip(every, observe(plans), strict=True)):
        assert outcome.up, (case.what, outcome.errors)
        before = offsets(tmp_path / str(i) / "given-0")
        left = offsets(written(tmp_path / f"after-{i}", outcome.partitions["given"].files))
        n_cleaned += left != before
        if said[i] != left:
            wrong[case.what] = (said[i][:6], left[:6], len(said[i]), len(left))
    assert not wrong, "\n".join(f"{case}: {words}" for case, words in wrong.items())
    assert n_cleaned > 8
