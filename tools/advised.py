"""Damaged partitions, before and after each step that `kfmt check` advises for them.

    python -m tools.advised [SEED [COUNT]]

Every step is carried out on a copy; Kafka's own loader then says what consumers are given.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kfmt_cli.writers.salvage.arrangement_writer import CONFLICT_DIRECTORY
from tests.support.combined_cases import Combined, combined
from tests.support.samples import kfmt
from tools.broker import CLEAN_SHUTDOWN
from tools.fuzz_starts import inside, point_of
from tools.judge import Judged, Loading, judge
from tools.observe import RECOVERY_POINTS, Start

MARKER, LOG_STARTS = ".kafka_cleanshutdown", "log-start-offset-checkpoint"
PARTITION = "given-0"


@dataclass(frozen=True)
class Advised:
    """A partition and the log directories that its steps leave, one after the other."""

    case: Combined
    start: Start
    steps: Sequence[tuple[str, str]]
    """Commands with their prices."""
    loadings: Sequence[Loading]
    """What a start finds before the steps, and after each."""
    aside: Sequence[set[int]]
    """The offsets that a copy has set aside, as they conflict with others, after each step."""


def advised(case: Combined, start: Start, folder: Path) -> Advised:
    """Carry out the steps for a partition, each on what the one before it has left; a copy of the
    undamaged batches is looked at in its own place."""
    given = folder / "log"
    (given / PARTITION).mkdir(parents=True)
    for file, content in case.files.items():
        (given / PARTITION / file).write_bytes(content)
    (given / RECOVERY_POINTS).write_text(f"0\n1\ngiven 0 {point_of(case, start)}\n")
    if case.log_start:
        (given / LOG_STARTS).write_text(f"0\n1\ngiven 0 {case.log_start}\n")
    if start is Start.CLEAN:
        (given / MARKER).write_text(CLEAN_SHUTDOWN)
    rows = kfmt("check", given, "--json", "--jobs", "1").of("next")
    steps = [(row["command"], row["price"]) for row in rows]
    loadings = [_loading(given, case)]
    aside: list[set[int]] = []
    for number, (command, _) in enumerate(steps):
        aside.append(set())
        words = shlex.split(command)
        if words[:2] == ["kfmt", "salvage"]:
            saved = folder / f"saved-{number}"
            kfmt(*words[1:-1], saved)
            loadings.append(_loading(saved, case))
            for conflicting in saved.rglob(f"{CONFLICT_DIRECTORY}*"):
                rows = kfmt("dump", conflicting, "--records", "--json").of("record")
                aside[-1].update(row["offset"] for row in rows)
            continue
        if words[0] == "kfmt":
            kfmt(*words[1:])
        else:
            subprocess.run(["bash", "-c", command], check=True)
        loadings.append(_loading(given, case))
    return Advised(case, start, steps, loadings, aside)


def _loading(folder: Path, case: Combined) -> Loading:
    """What a start finds in a log directory, or in a partition's directory."""
    partition = folder / PARTITION if (folder / PARTITION).is_dir() else folder
    files = {file.name: file.read_bytes() for file in partition.glob("*") if file.is_file()}
    is_clean, start = (folder / MARKER).exists(), (folder / LOG_STARTS).exists()
    point = 0
    if (folder / RECOVERY_POINTS).exists():
        point = int((folder / RECOVERY_POINTS).read_text().split()[-1])
    return Loading(files, is_clean, point, case.log_start if start else 0, case.log_end)


def harms(its: Advised, seen: Sequence[Judged]) -> list[str]:
    """The steps after which consumers are given less than before, or no more by a copy."""
    every = set(range(its.case.log_start, its.case.log_end))
    given = [inside(every, list(judged.reached)) if judged.starts else set() for judged in seen]
    found = []
    before = given[0]
    for (command, price), after, aside in zip(its.steps, given[1:], its.aside, strict=True):
        is_copy = command.endswith(" DST")
        less = sorted((given[0] if is_copy else before) - after - aside)
        if less:
            found.append(f"{command} ({price}): {len(less)} less, from {less[0]}")
        before = before if is_copy else after
    return found


def compare(cases: Sequence[Combined]) -> list[tuple[Advised, list[str]]]:
    """The partitions with steps that harm."""
    with tempfile.TemporaryDirectory() as scratch:
        every = []
        for number, case in enumerate(cases):
            for start in case.kinds:
                folder = Path(scratch) / f"{number}-{start.name}"
                every.append(advised(case, start, folder))
                shutil.rmtree(folder)
    seen = iter(judge([loading for its in every for loading in its.loadings]))
    judged = [(its, [next(seen) for _ in its.loadings]) for its in every]
    return [(its, found) for its, all_ in judged if (found := harms(its, all_))]


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    cases = list(combined(seed, int(sys.argv[2]) if len(sys.argv) > 2 else 100))
    wrong = compare(cases)
    for its, found in wrong:
        print(f"{its.case.what}\n  {its.start.name}: {'; '.join(found)}")
    print(f"{len(cases)} partitions, {len(wrong)} starts after which a step harms")


if __name__ == "__main__":
    main()
