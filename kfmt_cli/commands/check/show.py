"""check: what is shown: a line a partition, worst first; findings; what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Protocol

from kfmt_cli.broker.start.brokers import Next
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Start
from kfmt_cli.commands.check.advice import identify, next_steps, out_of_the_way
from kfmt_cli.commands.check.report import CHECK_RESULT, Report
from kfmt_cli.commands.check.start import OBSERVED_ON, start_row
from kfmt_cli.commands.run import Run, told
from kfmt_cli.findings.finding import Finding
from kfmt_cli.findings.indexes import INDEX_PREALLOCATED
from kfmt_cli.render.start_lines import (
    LABELS,
    either_start_words,
    next_start_words,
    outcome,
    start_lines,
    start_words,
)
from kfmt_cli.render.style import count, grouped, safe
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.rows.documents import BROKER_START, LOG_DIRECTORY, NEXT_STEP, PARTITION
from kfmt_cli.rows.result import Result

LEAST_NAME = 16
MOST_STEPS = 20  # next commands that are shown to people


def _start_words(report: Report, kind: str) -> str:
    start = report.after(kind)
    return "" if start is None else start_words(start, report.lost)


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
    LineColumn("after a crash", lambda report: _start_words(report, CRASH), right=False),
    LineColumn("after a clean shutdown", lambda report: _start_words(report, CLEAN), right=False),
)


class Outlook(Protocol):
    """What is known of brokers: the next start of each log directory, and the lines of each
    meta.properties that is missing, by the directory's path."""

    nexts: list[Next]
    missing: list[tuple[str, list[str]]]


def show(run: Run, reports: list[Report], starts: list[Start], found: Outlook) -> None:
    """Everything that was found, the worst partition first."""
    listed = sorted(
        (report for report in reports if not report.is_empty), key=lambda finding: finding.rank
    )
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
            label = LABELS[start.after]
            if following is not None and _same(start, following):
                label = "at any start"
            lines = start_lines(start, label, sink.out.theme)
        sink.document(BROKER_START, start_row(start), lines)
    down = {start.file for start in starts if not start.starts}
    steps = [identify(path, lines) for path, lines in found.missing]
    steps += (step for report in listed for step in out_of_the_way(report, down))
    steps += (step for report in listed for step in next_steps(report))
    for i, step in enumerate(steps):
        lines = [] if i >= MOST_STEPS else [f"  {step.command}   {step.price}\n"]
        head = [f"{sink.out.theme.paint('bold', 'what to do next')}\n"] if i == 0 else []
        row: dict[str, object] = {"file": step.file, "command": step.command, "price": step.price}
        sink.document(NEXT_STEP, row, [*head, *lines])
    for next_start in found.nexts:
        row = asdict(next_start)
        row["next_start"] = row.pop("after")
        row["observed_on"] = list(OBSERVED_ON)
        sink.document(LOG_DIRECTORY, row, ())
        where = f"{safe(next_start.file)}: " if len(found.nexts) > 1 else ""
        sink.remark(f"{where}{next_start_words(next_start)}", "bold")
    if not found.nexts:
        sink.remark(either_start_words(starts), "bold")


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
    names = (column.name for column in PARTITION.columns if column.name != "file")
    return {"file": report.shown, **{name: getattr(report, name) for name in names}}


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
    told = replace(code, after_crash=outcome(crash), after_clean_shutdown=outcome(clean))
    return replace(finding, code=told)
