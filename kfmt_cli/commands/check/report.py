"""check: the report: a line a partition, worst first; findings; what to do next, and its price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

from kfmt_cli.broker.start.brokers import Next
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, OFFLINE, STRAY, UNSERVED, Start
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.commands.check.start import OBSERVED_ON, start_row, start_words
from kfmt_cli.commands.run import Run, told
from kfmt_cli.disk.tree import Folder
from kfmt_cli.findings import files as kind_codes
from kfmt_cli.findings import partition as partition_codes
from kfmt_cli.findings.consequences import REBUILD_INDEX
from kfmt_cli.findings.finding import Finding, Findings, Severity, Tally
from kfmt_cli.findings.indexes import INDEX_PREALLOCATED
from kfmt_cli.render.style import Theme, count, grouped, safe, shell_quoted
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.rows.documents import BROKER_START, LOG_DIRECTORY, NEXT_STEP, PARTITION
from kfmt_cli.rows.result import Result, ResultType
from kfmt_cli.topics import CLUSTER_METADATA

CHECK_RESULT = ResultType(
    ("segments", "records", "bytes"),
    {"segments": 8, "records": 11, "bytes": 14},
    ("directory", "directories"),
)
LEAST_NAME = 16
_MOST_STEPS = 20  # next commands that are shown to people


@dataclass(slots=True)
class Report(Tally):
    """What was found in a directory."""

    shown: str
    """The name that it is shown with."""
    path: str
    """The path to name it by in a command."""
    folder: Folder | None
    segments: int = 0
    records: int = 0
    bytes: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    findings: Findings = field(default_factory=Findings)
    all: list[Finding] = field(default_factory=list)
    """All of its findings, with those that do not count."""
    extents: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first offset and the end of its logs, by base offset."""
    has_transactions: bool = False
    lost: list[tuple[int, int]] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    marker: str | None = None
    """The `.kafka_cleanshutdown` of its log directory, where it is there."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say of it."""
        return not (self.segments or self.starts or self.all)

    @property
    def rank(self) -> tuple[int, ...]:
        """Worse ones come first."""
        fails = any(not start.starts for start in self.starts)
        lost = sum(size_of_ranges(start.lost) for start in self.starts)
        return (-fails, -self.errors, -lost, -self.warnings, -self.notes)

    def after(self, kind: str) -> Start | None:
        """What a start of that kind makes of it."""
        return next((start for start in self.starts if start.after == kind), None)

    @property
    def verdict(self) -> tuple[str, str]:
        """The findings in a word or two, and the style of that."""
        if self.errors:
            return count(self.errors, "error"), "bad"
        if self.warnings:
            return count(self.warnings, "warning"), "warn"
        return (f"ok, {count(self.notes, 'note')}" if self.notes else "ok"), "good"

    def start_words(self, kind: str) -> str:
        """What a start of that kind makes of it, in a few words."""
        start = self.after(kind)
        return "" if start is None else start_words(start, self.lost)


_COLUMNS: tuple[LineColumn[Report], ...] = (
    LineColumn("segments", lambda report: grouped(report.segments), keep=2),
    LineColumn("records", lambda report: grouped(report.records), keep=3),
    LineColumn("bytes", lambda report: grouped(report.bytes), keep=1),
    LineColumn(
        "findings",
        lambda report: report.verdict[0],
        right=False,
        style=lambda report: report.verdict[1],
    ),
    LineColumn("after a crash", lambda report: report.start_words(CRASH), right=False),
    LineColumn("after a clean shutdown", lambda report: report.start_words(CLEAN), right=False),
)


class Outlook(Protocol):
    """What is known of brokers: the next start of each log directory, and the lines of each
    meta.properties that is missing, by the directory's path."""

    nexts: list[Next]
    missing: list[tuple[str, list[str]]]


def show(run: Run, reports: list[Report], starts: list[Start], found: Outlook) -> None:
    """Everything that was found, the worst partition first."""
    listed = sorted((report for report in reports if not report.is_empty), key=lambda it: it.rank)
    sink = run.sink
    if sink.is_report:
        for report in listed:
            run.all(told(_result(report)))
        return
    named = [(report.shown, report) for report in listed]
    table = LineTable("partition", named, _COLUMNS, sink.out.theme, sink.out.width, LEAST_NAME)
    for i, report in enumerate(listed):
        above = [] if i else [table.heading()]
        sink.document(PARTITION, _row(report), [*above, table.line(report.shown, report)])
        run.summary.add(_result(report))
    _show_findings(run, listed)
    for i, start in enumerate(starts):
        before = starts[i - 1] if i else None
        following = starts[i + 1] if i + 1 < len(starts) else None
        lines: Iterable[str] = ()
        if before is None or not _same(before, start):
            label = _LABELS[start.after]
            if following is not None and _same(start, following):
                label = "at any start"
            lines = _start_lines(start, label, sink.out.theme)
        sink.document(BROKER_START, start_row(start), lines)
    down = {start.file for start in starts if not start.starts}
    steps = [_identify(path, lines) for path, lines in found.missing]
    steps += (step for report in listed for step in _out_of_the_way(report, down))
    steps += (step for report in listed for step in next_steps(report))
    for i, step in enumerate(steps):
        lines = [] if i >= _MOST_STEPS else [f"  {step.command}   {step.price}\n"]
        head = [f"{sink.out.theme.paint('bold', 'what to do next')}\n"] if i == 0 else []
        row: dict[str, object] = {"file": step.file, "command": step.command, "price": step.price}
        sink.document(NEXT_STEP, row, [*head, *lines])
    for row, words in _outlook(starts, found.nexts):
        if row:
            row["next_start"] = row.pop("after")
            row["observed_on"] = list(OBSERVED_ON)
            sink.document(LOG_DIRECTORY, row, ())
        sink.remark(words, "bold")


def _show_findings(run: Run, listed: list[Report]) -> None:
    """What is wrong in each directory. Preallocated indexes are as they should be: people are told
    how many there are."""
    sink = run.sink
    preallocated = 0
    for report in listed:
        for finding in report.findings:
            run.seen(finding)
            if sink.for_people and finding.code is INDEX_PREALLOCATED:
                preallocated += 1
            else:
                sink.finding(_with_outcome(finding, report))
        run.left_out(report.shown, report.findings)
    if preallocated:
        what = count(preallocated, "index is preallocated", "indexes are preallocated")
        sink.remark(f"{what}, as while a broker runs, or after it was killed")


def _result(report: Report) -> Result:
    numbers = {"segments": report.segments, "records": report.records, "bytes": report.bytes}
    result = Result(CHECK_RESULT, report.shown, "partition", numbers, findings=report.findings)
    result.errors, result.warnings, result.notes = report.errors, report.warnings, report.notes
    return result


def _row(report: Report) -> dict[str, object]:
    return {
        "file": report.shown,
        "segments": report.segments,
        "records": report.records,
        "bytes": report.bytes,
        "errors": report.errors,
        "warnings": report.warnings,
        "notes": report.notes,
    }


_BECOMES = {
    STRAY: "the broker renames the directory to -stray, and consumers see nothing of it",
    OFFLINE: "the broker starts without this log directory, and the partition is offline",
    UNSERVED: "the broker starts and does not serve the partition",
}
_LABELS = {CRASH: "after a crash", CLEAN: "after a clean shutdown"}


def _same(one: Start, other: Start) -> bool:
    """Whether two starts on the same partition come to the same."""
    return replace(one, after=other.after) == other


def _with_outcome(finding: Finding, report: Report) -> Finding:
    """A finding with what a start does with this partition, in place of what it does as a rule."""
    crash, clean = report.after(CRASH), report.after(CLEAN)
    code = finding.code
    if (
        crash is None
        or clean is None
        or (code.after_crash, code.after_clean_shutdown) == (None, None)
    ):
        return finding
    told = replace(code, after_crash=_outcome(crash), after_clean_shutdown=_outcome(clean))
    return replace(finding, code=told)


def _outcome(start: Start) -> str:
    """What a start does with a partition, as a sentence."""
    if start.becomes is not None:
        words = _BECOMES[start.becomes]
    elif not start.starts:
        words = "the broker does not start"
    else:
        words = "; ".join(_changes(start)) if start.harms else "nothing of this partition is lost"
    return f"{words[0].upper()}{words[1:]}."


def _start_lines(start: Start, label: str, theme: Theme) -> Iterator[str]:
    """What a start does that somebody should know."""
    if not start.harms:
        return
    head = f"{theme.paint('bold', safe(start.file))} {label}: "
    if start.becomes is not None:
        yield f"{head}{theme.paint('bad', _BECOMES[start.becomes])}: {safe(start.reason or '')}\n"
        return
    if not start.starts:
        words_ = theme.paint("bad", "the broker does not start")
        yield f"{head}{words_}: {safe(start.reason or '')}\n"
        return
    yield f"{head}{'; '.join(_changes(start))}\n"


def _changes(start: Start) -> list[str]:
    """What a start leaves of a partition, in words."""
    words = [f"the log ends at {start.log_end_offset}"]
    words += [f"{safe(_last(file))} is cut to {grouped(size)} bytes" for file, size in start.cut]
    if len(start.deleted) > 2:
        words.append(f"{count(len(start.deleted), 'file')} deleted")
    else:
        words += [f"{safe(_last(it))} is deleted" for it in start.deleted]
    if start.lost:
        words.append(f"offsets {_ranges(start.lost)} go")
    if start.unreachable:
        words.append(f"no consumer reaches {_ranges(start.unreachable)}")
    return words


def _last(file: str) -> str:
    return file.rpartition("/")[2]


def _ranges(ranges: list[tuple[int, int]]) -> str:
    shown = [str(a) if a == b else f"{a}–{b}" for a, b in ranges[:3]]
    more = f" and {len(ranges) - 3} more ranges" if len(ranges) > 3 else ""
    return ", ".join(shown) + more


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next about a partition, and what it costs."""

    file: str
    command: str
    price: str


# Files and directories that keep a broker from starting, and that it does not need.
_IN_THE_WAY = (
    partition_codes.NAME_NOT_NUMERIC,
    partition_codes.DIRECTORY_NOT_A_PARTITION,
    kind_codes.CHECKPOINT_MALFORMED,
)


def next_steps(report: Report) -> Iterator[NextStep]:
    """What to do about a partition."""
    crash, clean = report.after(CRASH), report.after(CLEAN)
    path = shell_quoted(report.path)
    if (crash and crash.lost) or (clean and (clean.lost or clean.unreachable)):
        words = "every undamaged batch, in a copy; reads the logs once"
        yield NextStep(report.shown, f"kfmt salvage {path} DST", words)
    is_worse = clean is not None and (clean.lost or clean.unreachable or not clean.starts)
    is_worse = is_worse and clean is not None and clean.becomes is None
    of_metadata = Path(report.path).name.startswith(CLUSTER_METADATA)
    is_better = crash is not None and crash.starts and crash.becomes is None
    if is_worse and is_better and report.marker is not None and not (of_metadata or report.lost):
        goes = 0 if crash is None else size_of_ranges(crash.lost)
        gone = f"{grouped(goes)} offsets of this replica go" if goes else "no offset goes"
        words = f"forces recovery: {gone}; the start takes longer"
        yield NextStep(report.shown, f"rm {shell_quoted(report.marker)}", words)
    is_damaged = any(
        finding.code.severity is Severity.ERROR and finding.file.endswith(".log")
        for finding in report.all
    )
    wants_index = any(
        finding.code.advice and REBUILD_INDEX in finding.code.advice for finding in report.findings
    )
    if wants_index and not is_damaged:
        words = f"reads {grouped(report.bytes)} bytes; the broker must be stopped"
        yield NextStep(report.shown, f"kfmt rebuild-index --in-place {path}", words)


def _identify(path: str, lines: list[str]) -> NextStep:
    """Write the meta.properties that a log directory lacks."""
    file = shell_quoted(str(Path(path) / "meta.properties"))
    words = " ".join(map(shell_quoted, ("printf", "%s\\n", *lines)))
    return NextStep(path, f"{words} > {file}", "the broker does not start without it")


def _out_of_the_way(report: Report, down: set[str]) -> Iterator[NextStep]:
    """Move away what a broker trips over and does not need. down: what keeps it from starting."""
    moved = set()
    for finding in report.all:
        if finding.code not in _IN_THE_WAY or report.folder is None:
            continue
        file = Path(report.path) / Path(finding.file).name
        if file in moved or down.isdisjoint((finding.file, report.shown)):
            continue
        moved.add(file)
        to = file.with_name(f"{file.name}.aside")
        if finding.code is partition_codes.DIRECTORY_NOT_A_PARTITION:  # its report is its own
            file = Path(report.path)
            to = file.resolve().parent.parent / f"{file.name}.aside"
        words = "the broker does not start with it, and does not need it"
        yield NextStep(report.shown, f"mv {shell_quoted(str(file))} {shell_quoted(str(to))}", words)


def _outlook(starts: list[Start], nexts: list[Next]) -> Iterator[tuple[dict[str, object], str]]:
    """Which start comes next in each log directory, and whether the broker comes up."""
    for following in nexts:
        marker = "no .kafka_cleanshutdown: the next start recovers the logs"
        if following.after == CLEAN:
            marker = ".kafka_cleanshutdown is there: the next start is a clean one"
        end = "the broker would start" if following.starts else "the broker would not start"
        if following.becomes is not None:
            end += ", without this log directory"
        where = f"{safe(following.file)}: " if len(nexts) > 1 else ""
        retry = ""
        if not following.starts and following.after == CLEAN and following.retry == CRASH:
            retry = "; it deletes the marker, so that the start after that recovers the logs"
        yield asdict(following), f"{where}{marker}; {end}{retry}"
    if nexts:
        return
    fails = {start.after for start in starts if not start.starts}
    up = {
        kind: "would start" if kind not in fails else "would not start" for kind in (CRASH, CLEAN)
    }
    words = "no partition directory was given, so a broker's start was not checked"
    if starts:
        words = f"a broker {up[CRASH]} after a crash, and {up[CLEAN]} after a clean shutdown"
    yield {}, words
