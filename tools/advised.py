"""Damaged partitions, before and after each step that `kfmt check` advises for them.

    python -m tools.advised [SEED [COUNT]]

Runs every step on a copy; Kafka's own loader then shows which records consumers get.
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
from tests.support.combined_cases import CombinedCase, combined
from tests.support.samples import kfmt
from tools.broker import CLEAN_SHUTDOWN
from tools.fuzz_starts import offsets_in_ranges, recovery_point
from tools.judge import Judged, Loading, judge
from tools.observe import RECOVERY_POINTS, Start

MARKER, LOG_STARTS = ".kafka_cleanshutdown", "log-start-offset-checkpoint"
PARTITION = "given-0"


@dataclass(frozen=True)
class Advised:
    """A partition, and its log directory after each of its steps."""

    case: CombinedCase
    start: Start
    steps: Sequence[tuple[str, str]]
    """Commands and their prices."""
    loadings: Sequence[Loading]
    """What a start loads before the steps, and after each."""
    aside: Sequence[set[int]]
    """After each step, the offsets that a copy moved to a conflict log."""


def advised(case: CombinedCase, start: Start, directory: Path) -> Advised:
    """Run the steps for a partition, each on the result of the previous one; a copy of the
    undamaged batches is loaded from its own directory."""
    log_directory = directory / "log"
    (log_directory / PARTITION).mkdir(parents=True)
    for file, content in case.files.items():
        (log_directory / PARTITION / file).write_bytes(content)
    (log_directory / RECOVERY_POINTS).write_text(f"0\n1\ngiven 0 {recovery_point(case, start)}\n")
    if case.log_start:
        (log_directory / LOG_STARTS).write_text(f"0\n1\ngiven 0 {case.log_start}\n")
    if start is Start.CLEAN:
        (log_directory / MARKER).write_text(CLEAN_SHUTDOWN)
    rows = kfmt("check", log_directory, "--json", "--jobs", "1").of("next")
    steps = [(row["command"], row["price"]) for row in rows]
    loadings = [_loading(log_directory, case)]
    conflicting_offsets: list[set[int]] = []
    for index, (command, _) in enumerate(steps):
        conflicting_offsets.append(set())
        arguments = shlex.split(command)
        if arguments[:2] == ["kfmt", "salvage"]:
            saved = directory / f"saved-{index}"
            kfmt(*arguments[1:-1], saved)
            loadings.append(_loading(saved, case))
            for conflicting in saved.rglob(f"{CONFLICT_DIRECTORY}*"):
                rows = kfmt("dump", conflicting, "--records", "--json").of("record")
                conflicting_offsets[-1].update(row["offset"] for row in rows)
            continue
        if arguments[0] == "kfmt":
            kfmt(*arguments[1:])
        else:
            subprocess.run(["bash", "-c", command], check=True)
        loadings.append(_loading(log_directory, case))
    return Advised(case, start, steps, loadings, conflicting_offsets)


def _loading(directory: Path, case: CombinedCase) -> Loading:
    """What a start loads from a log directory, or from a partition directory."""
    partition = directory / PARTITION if (directory / PARTITION).is_dir() else directory
    files = {file.name: file.read_bytes() for file in partition.glob("*") if file.is_file()}
    is_clean, start = (directory / MARKER).exists(), (directory / LOG_STARTS).exists()
    point = 0
    if (directory / RECOVERY_POINTS).exists():
        point = int((directory / RECOVERY_POINTS).read_text().split()[-1])
    return Loading(files, is_clean, point, case.log_start if start else 0, case.log_end)


def harms(partition: Advised, judgements: Sequence[Judged]) -> list[str]:
    """The steps after which consumers get fewer offsets than before."""
    all_offsets = set(range(partition.case.log_start, partition.case.log_end))
    delivered = [
        offsets_in_ranges(all_offsets, list(judged.reached)) if judged.starts else set()
        for judged in judgements
    ]
    harmful = []
    previous = delivered[0]
    for (command, price), current, conflicting in zip(
        partition.steps, delivered[1:], partition.aside, strict=True
    ):
        is_copy = command.endswith(" DST")
        missing = sorted((delivered[0] if is_copy else previous) - current - conflicting)
        if missing:
            harmful.append(f"{command} ({price}): {len(missing)} less, from {missing[0]}")
        previous = previous if is_copy else current
    return harmful


def compare(cases: Sequence[CombinedCase]) -> list[tuple[Advised, list[str]]]:
    """The partitions with harmful steps."""
    with tempfile.TemporaryDirectory() as scratch:
        partitions = []
        for index, case in enumerate(cases):
            for start in case.kinds:
                directory = Path(scratch) / f"{index}-{start.name}"
                partitions.append(advised(case, start, directory))
                shutil.rmtree(directory)
    judgements = iter(
        judge([loading for partition in partitions for loading in partition.loadings])
    )
    judged_partitions = [
        (partition, [next(judgements) for _ in partition.loadings]) for partition in partitions
    ]
    return [
        (partition, harmful)
        for partition, partition_judgements in judged_partitions
        if (harmful := harms(partition, partition_judgements))
    ]


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    cases = list(combined(seed, int(sys.argv[2]) if len(sys.argv) > 2 else 100))
    harmful = compare(cases)
    for partition, steps in harmful:
        print(f"{partition.case.description}\n  {partition.start.name}: {'; '.join(steps)}")
    print(f"{len(cases)} partitions, {len(harmful)} starts after which a step harms")


if __name__ == "__main__":
    main()
