"""check: the next steps for the findings, and their cost.

No step loses, hides or sets aside what the next start would serve without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Start
from kfmt_cli.broker.start.ranges import merged, size_of_ranges, without
from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.commands.check.deleted import deleted_in
from kfmt_cli.disk.tree import as_given
from kfmt_cli.findings import files as kind_codes
from kfmt_cli.findings import partition as partition_codes
from kfmt_cli.findings.consequences import REBUILD_ABORTS, WANT_INDEX
from kfmt_cli.findings.finding import Severity
from kfmt_cli.render.style import count, grouped, shell_quoted


@dataclass(frozen=True, slots=True)
class NextStep:
    """A step to take for a partition, and its cost."""

    file: str
    command: str
    price: str
    joint: str = ""
    """The command for all partitions of the log directory at once."""
    joint_price: str = ""
    """The cost of that command, of all partitions that have it."""


BRING_BACK = "kfmt salvage --deleted"
REBUILD = "kfmt rebuild-index --in-place"
# Files and directories that prevent a broker from starting and that it does not need.
_IN_THE_WAY = (
    partition_codes.NAME_NOT_NUMERIC,
    partition_codes.DIRECTORY_NOT_A_PARTITION,
    kind_codes.CHECKPOINT_MALFORMED,
)


def steps_of(
    listed: Sequence[CheckedDirectory],
    starts: Sequence[Start],
    missing: Iterable[tuple[str, list[str]]],
) -> Iterator[NextStep]:
    """All next steps: what a broker would delete, what lets it start, what rescues and repairs
    partitions, and last what is paid for with other partitions' offsets. missing: as for
    `_identify`."""
    down = {start.file for start in starts if not start.starts}
    yield from _bring_back(listed)
    yield from (_identify(path, lines) for path, lines in missing)
    moves = [step for report in listed for step in _out_of_the_way(report, down)]
    yield from moves
    yield from _rescue(listed, {step.file for step in moves})
    yield from _repair(listed)
    yield from _force_recovery(listed, starts)


def _for_each(
    amounts: Iterable[tuple[CheckedDirectory, int]],
    command: Callable[[str], str],
    price: Callable[[int], str],
) -> Iterator[NextStep]:
    """A step for each partition, and what it is for all partitions of the log directory.

    amounts: what the step costs or brings for each partition; the joint cost is their sum.
    """
    found = []
    sums: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for report, amount in amounts:
        given = as_given(report.path)
        path, joint = (command(shell_quoted(of)) for of in (given, str(Path(given).parent)))
        found.append(NextStep(report.shown, path, price(amount), joint))
        sums[joint] += amount
        numbers[joint] += 1
    for step in found:
        words = f"{price(sums[step.joint])} ({count(numbers[step.joint], 'partition')})"
        yield replace(step, joint_price=words)


def _bring_back(listed: Sequence[CheckedDirectory]) -> Iterator[NextStep]:
    """Copy deleted records before a broker removes them."""
    yield from _for_each(
        ((deleted.report, deleted.records) for deleted in deleted_in(listed)),
        lambda path: f"{BRING_BACK} {path} DST",
        lambda n: f"brings back {count(n, 'deleted record')}; a broker removes them once it starts",
    )


def _rescue(listed: Sequence[CheckedDirectory], helped: set[str]) -> Iterator[NextStep]:
    """Copy the undamaged batches that a start would lose or hide, or that keep a broker down.

    helped: directories with a step after which the broker starts.
    """
    for option, what in (("", "undamaged batch"), (" --records", "undamaged batch and record")):
        hidden = []
        for report in listed:
            after = (report.after(CRASH), report.after(CLEAN))
            its = [start for start in after if start is not None and start.becomes is None]
            at_risk = merged(range_ for start in its for range_ in start.salvageable)
            if its and report.shown not in helped and all(_is_down(report, s) for s in its):
                at_risk = merged((first, end - 1) for first, end in report.extents.values())
            # Consumers receive the records before the fault in a batch.
            by_record = any(start.in_damage for start in its)
            if at_risk and by_record is bool(option):
                hidden.append((report, size_of_ranges(at_risk)))
        yield from _for_each(
            hidden,
            partial("kfmt salvage {1}{0} DST".format, option),
            partial(_rescued, what),
        )


def _is_down(report: CheckedDirectory, start: Start) -> bool:
    """Whether a partition's own logs keep a broker from starting."""
    return not start.starts and not start.is_twice and start.file == report.shown


def _rescued(what: str, n: int) -> str:
    return f"copies every {what} to DST, {count(n, 'offset')} at risk among them"


def _repair(listed: Sequence[CheckedDirectory]) -> Iterator[NextStep]:
    """Rebuild indexes of undamaged logs."""
    for of_aborts, command in ((True, f"{REBUILD} --all-files"), (False, REBUILD)):
        wanted = (report for report in listed if _index_wanted(report) is of_aborts)
        yield from _for_each(
            ((report, report.bytes) for report in wanted),
            partial("{} {}".format, command),
            lambda n: f"reads {grouped(n)} bytes; stop the broker first",
        )


def _index_wanted(report: CheckedDirectory) -> bool | None:
    """Whether indexes are to be rebuilt, and transaction indexes too; None if not."""
    if as_given(report.path) != report.path:
        return None  # nothing is changed in an archive
    is_damaged = any(
        finding.code.severity is Severity.ERROR and finding.file.endswith(".log")
        for finding in report.all
    )
    advice = [finding.code.advice for finding in report.findings if finding.code.advice]
    wants_aborts = any(REBUILD_ABORTS in words for words in advice)
    if is_damaged or not (wants_aborts or any(map(_wants_index, advice))):
        return None
    return wants_aborts


def _wants_index(advice: str) -> bool:
    return any(words in advice for words in WANT_INDEX)


def _force_recovery(
    listed: Sequence[CheckedDirectory], starts: Sequence[Start]
) -> Iterator[NextStep]:
    """Delete `.kafka_cleanshutdown` where the log directory as a whole gains by log recovery.

    While the broker starts with the file, no partition may pay for it with offsets of its own; if
    it does not start, its failed start deletes the file anyway.
    """
    for marker in dict.fromkeys(report.marker for report in listed):
        its = [report for report in listed if marker is not None and report.marker == marker]
        if marker is None or as_given(marker) != marker:
            continue
        folder = marker.rpartition("/")[0]
        down = {
            start.after
            for start in starts
            if not start.starts and (start.file == folder or start.file.startswith(f"{folder}/"))
        }
        down |= {start.after for report in its for start in report.starts if not start.starts}
        gained = sum(_served(report, CRASH) for report in its)
        gained -= 0 if CLEAN in down else sum(_served(report, CLEAN) for report in its)
        lost = [report.after(CRASH) for report in its]
        n_lost = sum(size_of_ranges(start.lost) for start in lost if start is not None)
        pays = CLEAN not in down and any(map(_pays, its))
        if CRASH in down or pays or not (gained > 0 or CLEAN in down):
            continue
        price = "no offsets are lost"
        if n_lost:
            n_partitions = sum(bool(start and start.lost) for start in lost)
            price = f"{count(n_lost, 'offset')} lost in {count(n_partitions, 'partition')}"
        words = f"forces log recovery of the whole log directory: {price}; startup takes longer"
        yield NextStep(folder or marker, f"rm {shell_quoted(marker)}", words)


def _served(report: CheckedDirectory, after: str) -> int:
    """The number of offsets that consumers receive after a start."""
    start = report.after(after)
    if start is None or start.fails:
        return 0
    held = [(first, end - 1) for first, end in report.extents.values()]
    return size_of_ranges(without(held, [*start.lost, *start.unreachable]))


def _pays(report: CheckedDirectory) -> bool:
    """Whether log recovery takes offsets of a partition that a clean start keeps."""
    crash, clean = report.after(CRASH), report.after(CLEAN)
    if crash is None or clean is None or clean.fails:
        return False
    is_less = _served(report, CRASH) < _served(report, CLEAN)
    return crash.fails or is_less or bool(without(crash.lost, clean.lost))


def _identify(path: str, lines: list[str]) -> NextStep:
    """The step that writes the missing meta.properties of a log directory."""
    file = shell_quoted(str(Path(path) / "meta.properties"))
    words = " ".join(map(shell_quoted, ("printf", "%s\\n", *lines)))
    return NextStep(path, f"{words} > {file}", "the broker does not start without this file")


def _out_of_the_way(report: CheckedDirectory, down: set[str]) -> Iterator[NextStep]:
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
