"""check: shows the findings, then whether a broker starts, what is lost and what to do."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Start
from kfmt_cli.commands.check.advice import BRING_BACK, steps_of
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT, CheckedDirectory
from kfmt_cli.commands.check.directories import CheckedPartitions
from kfmt_cli.commands.check.start import start_row
from kfmt_cli.commands.run import Run
from kfmt_cli.disk.kinds import INDEXES
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import Finding
from kfmt_cli.render.start_lines import (
    NextStep,
    lost_lines,
    next_start_lines,
    outcome,
    start_words,
    step_lines,
)
from kfmt_cli.render.style import PLAIN, Theme, count, fitted, grouped, safe
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.render.tables.results import verdict_style, verdict_words
from kfmt_cli.rows.documents import BROKER_START, LOG_DIRECTORY, NEXT_STEP, PARTITION
from kfmt_cli.rows.result import Result

_INDEXES = tuple(index.suffix for index in INDEXES)


def _start_words(report: CheckedDirectory, kind: str) -> str:
    start = report.after(kind)
    return "" if start is None else start_words(start, report.lost)


_COLUMNS: tuple[LineColumn[CheckedDirectory], ...] = (
    LineColumn("segments", lambda report: grouped(report.segments), keep=3),
    LineColumn("records", lambda report: grouped(report.records), keep=4),
    LineColumn("bytes", lambda report: grouped(report.bytes), keep=2),
    LineColumn("findings", verdict_words, keep=1, right=False, style=verdict_style),
    LineColumn("after a crash", lambda report: _start_words(report, CRASH), right=False),
    LineColumn("clean shutdown", lambda report: _start_words(report, CLEAN), right=False),
)


def show(run: Run, found: CheckedPartitions) -> ExitCode:
    """Show all findings and predictions; returns the exit code."""
    reports = (report for report in found.reports.values() if not report.is_empty)
    listed = sorted(reports, key=attrgetter("rank"))
    sink = run.sink
    if sink.only_findings:
        for report in listed:
            result = _result(report)
            run.summary.add(result)
            sink.result(result)
            _find(run, [report])
        return run.end()
    for report in listed:
        run.summary.add(_result(report))
    steps = list(steps_of(listed, found.starts, found.missing, run.complain))
    if sink.for_people:
        return _show_people(run, listed, found, steps)
    for report in listed:
        sink.document(PARTITION, {**PARTITION.members_of(report), "file": report.shown}, ())
    _find(run, listed)
    for start in found.starts:
        sink.document(BROKER_START, start_row(start), ())
    for step in steps:
        sink.document(NEXT_STEP, NEXT_STEP.members_of(step), ())
    for next_start in found.nexts:
        row = {**LOG_DIRECTORY.members_of(next_start), **next_start.kafka.row}
        sink.document(LOG_DIRECTORY, {**row, "next_start": next_start.after}, ())
    for line in _answers(found, steps, PLAIN, run.summary.unread):
        sink.answer(line)
    sink.next_steps(steps)
    return run.end()


def _show_people(
    run: Run, listed: list[CheckedDirectory], found: CheckedPartitions, steps: list[NextStep]
) -> ExitCode:
    """Show the findings by kind, the directories that need attention, and the answers."""
    sink, theme = run.sink, run.sink.out.theme
    _find(run, listed)
    sink.end_findings()
    bad = [report for report in listed if report.is_bad]
    healthy = [report for report in listed if not report.is_bad]
    width = None if sink.look.wide else sink.out.width
    shown = [*(healthy if sink.look.lists_all else ()), *reversed(bad)]
    if shown:
        named = [(report.shown, report) for report in shown]
        table = LineTable("directory", named, _COLUMNS, theme, width)
        sink.put(table.heading() + "".join(table.line(name, report) for name, report in named))
    if bad and len(shown) < len(listed):
        words = count(len(healthy), "healthy directory", "healthy directories")
        sink.remark(f"{words} not shown; use --all to list them")
    if not (listed or run.summary.unread):
        sink.remark("no damage in the files given; no start is predicted without a log", "good")
    if ignored := sum(report.hidden for report in listed):
        words = f"{count(ignored, 'finding')} hidden by --only or --ignore"
        sink.remark(f"{words}, but included in the start prediction")
    answers = _answers(found, steps, theme, run.summary.unread)
    answers += step_lines(steps, theme, width)
    if len(answers) == 1 and not bad:
        run.summary.answer = answers.pop()
    exit_code = run.end()
    for line in answers:  # a command stays whole
        sink.put(f"{line if line.startswith(' ') else fitted(line, width)}\n")
    sink.flush()
    return exit_code


def _answers(
    found: CheckedPartitions, steps: list[NextStep], theme: Theme, unread: int
) -> list[str]:
    """Lines that say whether a broker starts, and what is lost."""
    lines = [theme.paint("bold", line) for line in _deleted_lines(steps)]
    lines += next_start_lines(found.nexts, found.starts, theme, unread)
    return lines + list(lost_lines(found.starts, theme))


def _deleted_lines(steps: list[NextStep]) -> list[str]:
    """What can still be brought back, which a start would remove."""
    files = [step.file for step in steps if step.command.startswith(BRING_BACK)]
    if not files:
        return []
    where = safe(files[0]) if len(files) == 1 else count(len(files), "directory", "directories")
    return [f"deleted records are still in {where}: bring them back before a broker starts"]


def _find(run: Run, listed: list[CheckedDirectory]) -> None:
    """Show the findings of each directory, with the predicted effect of a start on it."""
    for report in listed:
        is_damaged = bool(report.errors_in_logs)
        for finding in report.findings:
            run.seen(finding)
            run.sink.finding(_with_outcome(finding, report, is_damaged))
        run.left_out(report.shown, report.findings)


def _result(report: CheckedDirectory) -> Result:
    numbers = {"segments": report.segments, "records": report.records, "bytes": report.bytes}
    result = Result(CHECK_RESULT, report.shown, "partition", numbers, findings=report.findings)
    result.errors, result.warnings, result.notes = report.errors, report.warnings, report.notes
    return result


def _with_outcome(finding: Finding, report: CheckedDirectory, is_log_damaged: bool) -> Finding:
    """A finding with the predicted effect of a start on this partition.

    What an index does to lookups is no effect on the partition: an index's own words stay.
    """
    crash, clean = report.after(CRASH), report.after(CLEAN)
    code = finding.code
    rules = code.after_crash, code.after_clean_shutdown
    if crash is None or clean is None or rules == (None, None):
        return finding
    words = [
        _effect(finding, rule, start, is_log_damaged)
        for rule, start in zip(rules, (crash, clean), strict=True)
    ]
    told = replace(code, after_crash=words[0], after_clean_shutdown=words[1])
    return replace(finding, code=told)


def _effect(finding: Finding, rule: str | None, start: Start, is_log_damaged: bool) -> str:
    """The effect of a start on a partition with a finding. rule: the finding's own effect."""
    is_index = finding.file.endswith(_INDEXES)
    if rule is None or not is_index or start.fails:
        return outcome(start)
    log = f"{finding.file.rpartition('.')[0]}{LOG.suffix}"
    if log in start.deleted:
        return "The broker deletes the segment."
    return rule if is_log_damaged or not start.loses else f"{rule} {outcome(start)}"
