"""check: the next steps for the findings, and their cost.

No step loses, hides or sets aside what the next start would serve without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kfmt_cli.broker.offsets.seek import blocks_from
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Start
from kfmt_cli.broker.start.ranges import merged, size_of_ranges, without
from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.disk.given import RSM_PRIVATE_KEY
from kfmt_cli.disk.kinds.logs import DELETED_LOG
from kfmt_cli.disk.names import mark_of, real_path
from kfmt_cli.disk.opening import is_on_disk
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import Caught, InputError, LostBytesError
from kfmt_cli.findings import files as kind_codes
from kfmt_cli.findings import partition as partition_codes
from kfmt_cli.findings.consequences import REBUILD_ABORTS, WANT_INDEX
from kfmt_cli.log.block import Block
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import count, grouped, shell_path, shell_quoted
from kfmt_cli.writing.salvage.lost import LostParts

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
    complain: Callable[[str], None],
) -> Iterator[NextStep]:
    """All next steps: what a broker would delete, what lets it start, what rescues and repairs
    partitions, and last what is paid for with other partitions' offsets. missing: as for
    `_identify`. complain: receives errors about unreadable logs."""
    down = {start.file for start in starts if not start.starts}
    yield from with_key(_bring_back(listed, complain))
    yield from (_identify(path, lines) for path, lines in missing)
    moves = [step for report in listed for step in _out_of_the_way(report, down)]
    yield from moves
    yield from with_key(_rescue(listed, {step.file for step in moves}))
    yield from _repair(listed)
    yield from _force_recovery(listed, starts)


def with_key(steps: Iterable[NextStep]) -> Iterator[NextStep]:
    """The steps, with the key for encrypted segments that this run reads."""
    key = RSM_PRIVATE_KEY.get()
    option = "" if key is None else f" --rsm-private-key {shell_path(key)}"
    for step in steps:
        joint = f"{step.joint}{option}" if step.joint else ""
        yield replace(step, command=f"{step.command}{option}", joint=joint)


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
        path, joint = (
            command(shell_path(of)) for of in (report.path, str(Path(report.path).parent))
        )
        found.append(NextStep(report.shown, path, price(amount), joint))
        sums[joint] += amount
        numbers[joint] += 1
    for step in found:
        words = f"{price(sums[step.joint])} ({count(numbers[step.joint], 'partition')})"
        yield replace(step, joint_price=words)


def _bring_back(
    listed: Sequence[CheckedDirectory], complain: Callable[[str], None]
) -> Iterator[NextStep]:
    """Copy deleted records before a broker removes them."""
    yield from _for_each(
        _deleted_in(listed, complain),
        lambda path: f"{BRING_BACK} {path} DST",
        lambda n: f"brings back {count(n, 'deleted record')}; a broker removes them once it starts",
    )


def _deleted_in(
    reports: Sequence[CheckedDirectory], complain: Callable[[str], None]
) -> Iterator[tuple[CheckedDirectory, int]]:
    """The number of records that are still in directories marked -delete and in logs marked
    .deleted, of each partition that has some. complain: receives errors about unreadable logs."""
    for report in reports:
        if report.folder is None:
            continue
        is_topic = mark_of(report.folder.path.rstrip("/")) == "delete"
        records = _deleted_records(report.folder, complain) + (report.records if is_topic else 0)
        if records:
            yield report, records


def _deleted_records(folder: Folder, complain: Callable[[str], None]) -> int:
    """The number of records in a directory's deleted logs, by their batch headers."""

    def unread(error: InputError) -> None:
        if not error.is_gone:  # a broker removes it after a minute
            complain(str(error))

    n_records = 0
    for name in folder.files:
        if name.endswith(DELETED_LOG) and name not in folder.special:
            log = folder.input(name)
            with Caught(unread):
                try:
                    n_records += _records_in(blocks_from(log))
                except LostBytesError as error:
                    complain(str(error))
                    with open_checked(log, False, LostParts().around) as opened:
                        n_records += _records_in(opened.blocks)
    return n_records


def _records_in(blocks: Iterable[Block]) -> int:
    """The number of records in the batches that are not known to be damaged."""
    numbers = (block.batches.records_count[block.batches.crc_valid != 0] for block in blocks)
    return sum(int(its.sum()) for its in numbers)


def _rescue(listed: Sequence[CheckedDirectory], helped: set[str]) -> Iterator[NextStep]:
    """Copy the undamaged batches that a start would lose or hide, or that keep a broker down, or
    that lie around bytes that cannot be read.

    helped: directories with a step after which the broker starts.
    """
    by_batch: list[tuple[CheckedDirectory, int]] = []
    by_record: list[tuple[CheckedDirectory, int]] = []
    around = [(report, report.partly_read) for report in listed if report.partly_read]
    for report in listed:
        after = (report.after(CRASH), report.after(CLEAN))
        its = [start for start in after if start is not None and start.becomes is None]
        at_risk = merged(range_ for start in its for range_ in start.salvageable)
        if its and report.shown not in helped and all(_is_down(report, start) for start in its):
            at_risk = merged((first, end - 1) for first, end in report.extents.values())
        if at_risk and not report.partly_read:
            # Consumers receive the records before the fault in a batch.
            found = by_record if any(start.in_damage for start in its) else by_batch
            found.append((report, size_of_ranges(at_risk)))
    yield from _for_each(around, "kfmt salvage {} DST".format, _rescued_around)
    yield from _for_each(
        by_batch, "kfmt salvage {} DST".format, partial(_rescued, "undamaged batch")
    )
    yield from _for_each(
        by_record,
        "kfmt salvage {} --records DST".format,
        partial(_rescued, "undamaged batch and record"),
    )


def _rescued_around(n: int) -> str:
    return f"copies every undamaged batch to DST; {count(n, 'log')} can be read in part only"


def _is_down(report: CheckedDirectory, start: Start) -> bool:
    """Whether a partition's own logs keep a broker from starting."""
    return not start.starts and not start.is_twice and start.file == report.shown


def _rescued(what: str, n: int) -> str:
    return f"copies every {what} to DST, {count(n, 'offset')} at risk among them"


def _repair(listed: Sequence[CheckedDirectory]) -> Iterator[NextStep]:
    """Rebuild indexes of undamaged logs."""
    wanted = [(report, _index_wanted(report)) for report in listed]
    for of_aborts, command in ((True, f"{REBUILD} --all-files"), (False, REBUILD)):
        yield from _for_each(
            ((report, report.bytes) for report, wants in wanted if wants is of_aborts),
            f"{command} {{}}".format,
            lambda n: f"reads {grouped(n)} bytes; stop the broker first",
        )


def _index_wanted(report: CheckedDirectory) -> bool | None:
    """Whether indexes are to be rebuilt, and transaction indexes too; None if not."""
    if not is_on_disk(report.path):
        return None  # nothing is changed in an archive
    advice = [finding.code.advice for finding in report.findings if finding.code.advice]
    wants_aborts = any(REBUILD_ABORTS in words for words in advice)
    wants_any = wants_aborts or any(index in words for words in advice for index in WANT_INDEX)
    if not wants_any or report.errors_in_logs:
        return None
    return wants_aborts


def _force_recovery(
    listed: Sequence[CheckedDirectory], starts: Sequence[Start]
) -> Iterator[NextStep]:
    """Delete `.kafka_cleanshutdown` where the log directory as a whole gains by log recovery.

    While the broker starts with the file, no partition may pay for it with offsets of its own; if
    it does not start, its failed start deletes the file anyway.
    """
    of_marker: defaultdict[str, list[CheckedDirectory]] = defaultdict(list)
    for report in listed:
        if report.marker is not None and is_on_disk(report.marker):
            of_marker[report.marker].append(report)
    for marker, its in of_marker.items():
        folder = marker.rpartition("/")[0]
        down = {
            start.after
            for start in starts
            if not start.starts and (start.file == folder or start.file.startswith(f"{folder}/"))
        }
        down |= {start.after for report in its for start in report.starts if not start.starts}
        if CRASH in down or (CLEAN not in down and not _gains(its)):
            continue
        lost = [report.after(CRASH) for report in its]
        n_lost = sum(size_of_ranges(start.lost) for start in lost if start is not None)
        price = "no offsets are lost"
        if n_lost:
            n_partitions = sum(bool(start and start.lost) for start in lost)
            price = f"{count(n_lost, 'offset')} lost in {count(n_partitions, 'partition')}"
        words = f"forces log recovery of the whole log directory: {price}; startup takes longer"
        yield NextStep(folder or marker, f"rm {shell_path(marker)}", words)


def _served(report: CheckedDirectory, after: str) -> int:
    """The number of offsets that consumers receive after a start."""
    start = report.after(after)
    if start is None or start.fails:
        return 0
    held = [(first, end - 1) for first, end in report.extents.values()]
    return size_of_ranges(without(held, [*start.lost, *start.unreachable]))


def _gains(reports: Sequence[CheckedDirectory]) -> bool:
    """Whether log recovery brings some partition offsets that a clean start does not give, and
    takes none from any that it does."""
    is_gain = False
    for report in reports:
        crash, clean = report.after(CRASH), report.after(CLEAN)
        more = _served(report, CRASH) - _served(report, CLEAN)
        is_gain |= more > 0
        if crash is None or clean is None or clean.fails:
            continue
        if crash.fails or more < 0 or without(crash.lost, clean.lost):
            return False
    return is_gain


def _identify(path: str, lines: list[str]) -> NextStep:
    """The step that writes the missing meta.properties of a log directory."""
    file = shell_path(str(Path(path) / "meta.properties"))
    words = " ".join(map(shell_quoted, ("printf", "%s\\n", *lines)))
    return NextStep(path, f"{words} > {file}", "the broker does not start without this file")


def _out_of_the_way(report: CheckedDirectory, down: set[str]) -> Iterator[NextStep]:
    """Steps that move away files the broker fails on and does not need.

    down: the files and directories that prevent it from starting.
    """
    if report.folder is None or not is_on_disk(report.path):
        return  # nothing is changed in an archive
    moved = set()
    for finding in report.all:
        if finding.code not in _IN_THE_WAY:
            continue
        # A directory has a report of its own, unless it is a link to one that has.
        has_own = finding.file == report.shown
        folder = Path(report.path)
        file = folder if has_own else folder / Path(finding.file).name
        if file in moved or down.isdisjoint((finding.file, report.shown)):
            continue
        moved.add(file)
        to = file.with_name(f"{file.name}.aside")
        if finding.code is partition_codes.DIRECTORY_NOT_A_PARTITION:
            to = Path(real_path(str(file), may_be_link=False)).parent.parent / to.name
        words = "the broker does not start with this file and does not need it"
        yield NextStep(report.shown, f"mv {shell_path(str(file))} {shell_path(str(to))}", words)
