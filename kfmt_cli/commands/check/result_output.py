"""check: shows the findings, then whether a broker starts, what is lost and what to do."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, PredictedStart
from kfmt_cli.commands.check.check_results import CheckResults
from kfmt_cli.commands.check.directory_result import CHECK_RESULT, DirectoryCheckResult
from kfmt_cli.commands.check.next_steps import SALVAGE_DELETED_COMMAND, next_steps
from kfmt_cli.commands.check.start_prediction import start_row
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.disk.kinds import INDEX_KINDS
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import Finding
from kfmt_cli.render.start_lines import (
    NextStep,
    format_start,
    format_start_sentence,
    lost_lines,
    next_start_lines,
    step_lines,
)
from kfmt_cli.render.style import (
    NO_COLOUR,
    Theme,
    escape_terminal,
    fit_lines,
    format_count,
    format_grouped,
)
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.render.tables.result_table import verdict_label, verdict_style
from kfmt_cli.rows.documents import (
    BROKER_START_ROW,
    LOG_DIRECTORY_ROW,
    NEXT_STEP_ROW,
    PARTITION_ROW,
)
from kfmt_cli.rows.file_result import FileResult

_INDEX_SUFFIXES = tuple(index.suffix for index in INDEX_KINDS)


def _format_start(result: DirectoryCheckResult, kind: str) -> str:
    start = result.find_start(kind)
    return "" if start is None else format_start(start, result.lost_offsets)


_COLUMNS: tuple[LineColumn[DirectoryCheckResult], ...] = (
    LineColumn("segments", lambda result: format_grouped(result.segments), hide_rank=3),
    LineColumn("records", lambda result: format_grouped(result.records), hide_rank=4),
    LineColumn("bytes", lambda result: format_grouped(result.bytes), hide_rank=2),
    LineColumn("findings", verdict_label, hide_rank=1, align_right=False, style=verdict_style),
    LineColumn(
        "after a crash", lambda result: _format_start(result, AFTER_CRASH), align_right=False
    ),
    LineColumn(
        "clean shutdown",
        lambda result: _format_start(result, AFTER_CLEAN_SHUTDOWN),
        align_right=False,
    ),
)


def show_check_results(run: CommandRun, check_results: CheckResults) -> ExitCode:
    """Show all findings and predictions; returns the exit code."""
    nonempty_results = (
        result for result in check_results.result_by_name.values() if not result.is_empty
    )
    results = sorted(nonempty_results, key=attrgetter("rank"))
    sink = run.sink
    if sink.only_findings:
        for directory_result in results:
            file_result = _file_result(directory_result)
            run.summary.add(file_result)
            sink.write_result(file_result)
            _write_findings(run, [directory_result])
        return run.finish()
    for directory_result in results:
        run.summary.add(_file_result(directory_result))
    steps = list(
        next_steps(
            results,
            check_results.starts,
            check_results.missing_meta_properties,
            run.report_unreadable,
        )
    )
    if sink.for_people:
        return _show_to_people(run, results, check_results, steps)
    for directory_result in results:
        sink.write_document(
            PARTITION_ROW,
            {**PARTITION_ROW.members_from(directory_result), "file": directory_result.display_path},
            (),
        )
    _write_findings(run, results)
    for start in check_results.starts:
        sink.write_document(BROKER_START_ROW, start_row(start), ())
    for step in steps:
        sink.write_document(NEXT_STEP_ROW, NEXT_STEP_ROW.members_from(step), ())
    for next_start in check_results.next_starts:
        row = {
            **LOG_DIRECTORY_ROW.members_from(next_start),
            **next_start.predicted_version.json_members,
        }
        sink.write_document(LOG_DIRECTORY_ROW, {**row, "next_start": next_start.after}, ())
    for line in _answer_lines(check_results, steps, NO_COLOUR, run.summary.n_unread):
        sink.add_answer(line)
    sink.add_next_steps(steps)
    return run.finish()


def _show_to_people(
    run: CommandRun,
    results: list[DirectoryCheckResult],
    check_results: CheckResults,
    steps: list[NextStep],
) -> ExitCode:
    """Show the findings by kind, the directories that need attention, and the answers."""
    sink, theme = run.sink, run.sink.out.theme
    _write_findings(run, results)
    sink.end_findings()
    attention_results = [result for result in results if result.needs_attention]
    healthy_results = [result for result in results if not result.needs_attention]
    width = None if sink.display_options.wide else sink.out.width
    shown_results = [
        *(healthy_results if sink.display_options.lists_all else ()),
        *reversed(attention_results),
    ]
    if shown_results:
        named_results = [(result.display_path, result) for result in shown_results]
        table = LineTable("directory", named_results, _COLUMNS, theme, width)
        sink.write_line(
            table.format_heading()
            + "".join(table.format_line(name, result) for name, result in named_results)
        )
    if attention_results and len(shown_results) < len(results):
        message = format_count(len(healthy_results), "healthy directory", "healthy directories")
        sink.write_hint(f"{message} not shown; use --all to list them")
    if not (results or run.summary.n_unread):
        sink.write_hint("no damage in the files given; no start is predicted without a log", "good")
    if n_hidden := sum(result.n_hidden for result in results):
        message = f"{format_count(n_hidden, 'finding')} hidden by --only or --ignore"
        sink.write_hint(f"{message}, but included in the start prediction")
    answers = _answer_lines(check_results, steps, theme, run.summary.n_unread)
    answers += step_lines(steps, theme, width)
    if len(answers) == 1 and not attention_results:
        run.summary.answer = answers.pop()
    exit_code = run.finish()
    for line in answers:  # a command is not wrapped
        sink.write_line(f"{line if line.startswith(' ') else fit_lines(line, width)}\n")
    sink.flush()
    return exit_code


def _answer_lines(
    check_results: CheckResults, steps: list[NextStep], theme: Theme, n_unread: int
) -> list[str]:
    """Lines that say whether a broker starts, and what is lost."""
    lines = [theme.paint("bold", line) for line in _deleted_lines(steps)]
    lines += next_start_lines(check_results.next_starts, check_results.starts, theme, n_unread)
    return lines + list(lost_lines(check_results.starts, theme))


def _deleted_lines(steps: list[NextStep]) -> list[str]:
    """A line about deleted records that a start would remove and salvage can bring back, if any."""
    directories = [step.file for step in steps if step.command.startswith(SALVAGE_DELETED_COMMAND)]
    if not directories:
        return []
    location_text = (
        escape_terminal(directories[0])
        if len(directories) == 1
        else format_count(len(directories), "directory", "directories")
    )
    return [f"deleted records are still in {location_text}: bring them back before a broker starts"]


def _write_findings(run: CommandRun, results: list[DirectoryCheckResult]) -> None:
    """Show the findings of each directory, with the predicted effect of a start on it."""
    for result in results:
        is_damaged = bool(result.log_errors)
        for finding in result.findings:
            run.count_finding(finding)
            run.sink.write_finding(_with_outcome(finding, result, is_damaged))
        run.report_suppressed(result.display_path, result.findings)


def _file_result(directory_result: DirectoryCheckResult) -> FileResult:
    counts = {
        "segments": directory_result.segments,
        "records": directory_result.records,
        "bytes": directory_result.bytes,
    }
    result = FileResult(
        CHECK_RESULT,
        directory_result.display_path,
        "partition",
        counts,
        findings=directory_result.findings,
    )
    result.errors = directory_result.errors
    result.warnings = directory_result.warnings
    result.notes = directory_result.notes
    return result


def _with_outcome(finding: Finding, result: DirectoryCheckResult, is_log_damaged: bool) -> Finding:
    """A finding with the predicted effect of a start on this partition.

    An index's effect on lookups is not an effect on the partition: its findings keep their texts.
    """
    crash_start = result.find_start(AFTER_CRASH)
    clean_start = result.find_start(AFTER_CLEAN_SHUTDOWN)
    code = finding.code
    own_effects = code.after_crash, code.after_clean_shutdown
    if crash_start is None or clean_start is None or own_effects == (None, None):
        return finding
    effects = [
        _effect_text(finding, own_effect, start, is_log_damaged)
        for own_effect, start in zip(own_effects, (crash_start, clean_start), strict=True)
    ]
    predicted_code = replace(code, after_crash=effects[0], after_clean_shutdown=effects[1])
    return replace(finding, code=predicted_code)


def _effect_text(
    finding: Finding, own_effect: str | None, start: PredictedStart, is_log_damaged: bool
) -> str:
    """The effect of a start on a partition with a finding. own_effect: the finding's own effect."""
    is_index = finding.file.endswith(_INDEX_SUFFIXES)
    if own_effect is None or not is_index or start.fails:
        return format_start_sentence(start)
    log_name = f"{finding.file.rpartition('.')[0]}{LOG_KIND.suffix}"
    if log_name in start.deleted:
        return "The broker deletes the segment."
    return (
        own_effect
        if is_log_damaged or not start.loses_data
        else f"{own_effect} {format_start_sentence(start)}"
    )
