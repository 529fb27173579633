"""check: the next steps for the findings, and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kfmt_cli.broker.start.outcome import CLEAN, CRASH
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.disk.tree import as_given
from kfmt_cli.findings import files as kind_codes
from kfmt_cli.findings import partition as partition_codes
from kfmt_cli.findings.consequences import REBUILD_INDEX
from kfmt_cli.findings.finding import Severity
from kfmt_cli.render.style import count, grouped, shell_quoted
from kfmt_cli.topics import CLUSTER_METADATA


@dataclass(frozen=True, slots=True)
class NextStep:
    """A step to take for a partition, and its cost."""

    file: str
    command: str
    price: str
    joint: str = ""
    """The command for all partitions of the log directory at once."""


# Files and directories that prevent a broker from starting and that it does not need.
_IN_THE_WAY = (
    partition_codes.NAME_NOT_NUMERIC,
    partition_codes.DIRECTORY_NOT_A_PARTITION,
    kind_codes.CHECKPOINT_MALFORMED,
)


def next_steps(report: CheckedDirectory) -> Iterator[NextStep]:
    """Steps that rescue or repair a partition: salvage, force log recovery, rebuild indexes."""
    crash, clean = report.after(CRASH), report.after(CLEAN)
    given = as_given(report.path)
    path, all_ = shell_quoted(given), shell_quoted(str(Path(given).parent))
    cuts = [start for start in (crash, clean) if start is not None and start.becomes is None]
    if any(start.lost or (start is clean and start.unreachable) for start in cuts):
        words = "copies every undamaged batch to DST; reads the logs once"
        yield NextStep(report.shown, f"kfmt salvage {path} DST", words, f"kfmt salvage {all_} DST")
    if given != report.path:
        return  # nothing is changed in an archive
    is_worse = clean is not None and (clean.lost or clean.unreachable or not clean.starts)
    is_worse = is_worse and clean is not None and clean.becomes is None
    of_metadata = Path(report.path).absolute().name.startswith(CLUSTER_METADATA)
    is_better = crash is not None and crash.starts and crash.becomes is None
    if is_worse and is_better and report.marker is not None and not (of_metadata or report.lost):
        n_lost = 0 if crash is None else size_of_ranges(crash.lost)
        gone = f"this replica loses {count(n_lost, 'offset')}" if n_lost else "no offsets are lost"
        words = f"forces log recovery: {gone}; startup takes longer"
        yield NextStep(report.shown, f"rm {shell_quoted(report.marker)}", words)
    is_damaged = any(
        finding.code.severity is Severity.ERROR and finding.file.endswith(".log")
        for finding in report.all
    )
    wants_index = any(
        finding.code.advice and REBUILD_INDEX in finding.code.advice for finding in report.findings
    )
    if wants_index and not is_damaged:
        words = f"reads {grouped(report.bytes)} bytes; stop the broker first"
        command = "kfmt rebuild-index --in-place"
        yield NextStep(report.shown, f"{command} {path}", words, f"{command} {all_}")


def identify(path: str, lines: list[str]) -> NextStep:
    """The step that writes the missing meta.properties of a log directory."""
    file = shell_quoted(str(Path(path) / "meta.properties"))
    words = " ".join(map(shell_quoted, ("printf", "%s\\n", *lines)))
    return NextStep(path, f"{words} > {file}", "the broker does not start without this file")


def out_of_the_way(report: CheckedDirectory, down: set[str]) -> Iterator[NextStep]:
    """Steps that move away files the broker fails on and does not need.

    down: the files and directories that prevent it from starting.
    """
    if report.folder is None or as_given(report.path) != report.path:
        return  # nothing is changed in an archive
    moved = set()
    for finding in report.all:
        if finding.code not in _IN_THE_WAY:
            continue
        file = Path(report.path) / Path(finding.file).name
        if file in moved or down.isdisjoint((finding.file, report.shown)):
            continue
        moved.add(file)
        to = file.with_name(f"{file.name}.aside")
        if finding.code is partition_codes.DIRECTORY_NOT_A_PARTITION:  # it has its own report
            file = Path(report.path)
            to = file.resolve().parent.parent / f"{file.name}.aside"
        words = "the broker does not start with this file and does not need it"
        yield NextStep(report.shown, f"mv {shell_quoted(str(file))} {shell_quoted(str(to))}", words)
