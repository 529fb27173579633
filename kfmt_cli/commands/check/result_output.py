"""check: shows the findings, then whether a broker starts, what is lost and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from kfmt_cli.broker.start.identities import Situation
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, PredictedStart
from kfmt_cli.commands.check.check_results import CheckResults
from kfmt_cli.commands.check.directory_result import CHECK_RESULT, DirectoryCheckResult
from kfmt_cli.commands.check.plan.data_steps import SALVAGE_DELETED_COMMAND
from kfmt_cli.commands.check.plan.plan import make_plan
from kfmt_cli.commands.check.start_prediction import broker_start_row
from kfmt_cli.commands.command_run import CommandRun, adapt_to_place
from kfmt_cli.disk.kinds import INDEX_KINDS
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.codes import (
    RECORD_OFFSETS_BACKWARDS,
    RECORDS_BEYOND_OFFSETS,
    adapt_to_next_start,
)
from kfmt_cli.findings.finding import Finding
from kfmt_cli.render.start_lines import (
    NextStep,
    format_start,
    format_start_sentence,
    loss_lines,
    next_start_lines,
    step_lines,
)
from kfmt_cli.render.style import (
    NO_COLOUR,
    Theme,
    escape_unprintable,
    format_count,
    format_thousands,
    wrap_long_lines,
)
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.render.tables.result_table import verdict_label, verdict_style
from kfmt_cli.render.verdict_lines import KnownLosses, verdict_lines
from kfmt_cli.rows.documents import (
    BROKER_START_ROW,
    LOG_DIRECTORY_ROW,
    NEXT_STEP_ROW,
    PARTITION_ROW,
)
from kfmt_cli.rows.file_result import FileResult

# Findings of records that consumers skip: no offset is lost, nor does an error show it.
_RECORD_HIDING_CODES = (RECORDS_BEYOND_OFFSETS, RECORD_OFFSETS_BACKWARDS)
_INDEX_SUFFIXES = tuple(index.suffix for index in INDEX_KINDS)


def _start_column(label: str, shutdown_kind: str) -> LineColumn[DirectoryCheckResult]:
    def format_cell(result: DirectoryCheckResult) -> str:
        start = result.find_start(shutdown_kind)
        return "" if start is None else format_start(start, result.lost_offsets)

    return LineColumn(label, format_cell, align_right=False)


_COLUMN_BY_START_KIND = {
    AFTER_CRASH: _start_column("after a crash", AFTER_CRASH),
    AFTER_CLEAN_SHUTDOWN: _start_column("clean shutdown", AFTER_CLEAN_SHUTDOWN),
}
_DIRECTORY_COLUMNS: tuple[LineColumn[DirectoryCheckResult], ...] = (
    LineColumn("segments", lambda result: format_thousands(result.segments), hide_rank=3),
    LineColumn("records", lambda result: format_thousands(result.records), hide_rank=4),
    LineColumn("bytes", lambda result: format_thousands(result.bytes), hide_rank=2),
    LineColumn("findings", verdict_label, hide_rank=1, align_right=False, cell_style=verdict_style),
)


def show_check_results(run: CommandRun, check_results: CheckResults) -> ExitCode:
    """Show all findings and predictions; returns the exit code."""
    nonempty_results = (
        result for result in check_results.result_by_name.values() if not result.is_empty
    )
    nonempty_results_by_rank = sorted(nonempty_results, key=attrgetter("rank"))
    sink = run.sink
    steps = make_plan(
        nonempty_results_by_rank,
        check_results.predicted_starts,
        {next_start.after for next_start in check_results.next_starts},
        check_results.brokers,
        check_results.identities,
        run.report_input_error,
    )
    if sink.has_only_findings:
        for directory_result in nonempty_results_by_rank:
            file_result = _to_file_result(directory_result)
            run.summary.add_result(file_result)
            _write_findings(run, [directory_result])
            sink.write_result(file_result)
        sink.add_next_steps(steps)
        return run.finish()
    for directory_result in nonempty_results_by_rank:
        run.summary.add_result(_to_file_result(directory_result))
    if sink.is_for_people:
        sink.add_next_steps(steps)
        return _show_to_people(run, nonempty_results_by_rank, check_results, steps)
    for directory_result in nonempty_results_by_rank:
        sink.write_document(
            PARTITION_ROW,
            {**PARTITION_ROW.members_from(directory_result), "file": directory_result.display_path},
            (),
        )
    _write_findings(run, nonempty_results_by_rank)
    for start in check_results.predicted_starts:
        sink.write_document(BROKER_START_ROW, broker_start_row(start), ())
    for step in steps:
        sink.write_document(NEXT_STEP_ROW, NEXT_STEP_ROW.members_from(step), ())
    for next_start in check_results.next_starts:
        row = {
            **LOG_DIRECTORY_ROW.members_from(next_start),
            **next_start.predicted_version.json_members,
        }
        sink.write_document(LOG_DIRECTORY_ROW, {**row, "next_start": next_start.after}, ())
    for answer_line in _answer_lines(check_results, steps, NO_COLOUR, run.summary.n_unread_inputs):
        sink.add_answer(answer_line)
    sink.add_next_steps(steps)
    return run.finish()


def _show_to_people(
    run: CommandRun,
    results: list[DirectoryCheckResult],
    check_results: CheckResults,
    steps: list[NextStep],
) -> ExitCode:
    """Show the findings by kind, the directories that need attention, and the answers."""
    sink, theme = run.sink, run.sink.streams.theme
    _write_findings(run, results, check_results.shown_start_kinds)
    sink.end_findings()
    if sink.display_options.quiet:
        return run.finish()
    attention_results = [result for result in results if result.needs_attention]
    healthy_results = [result for result in results if not result.needs_attention]
    width = None if sink.display_options.wide else sink.streams.width
    shown_results = [
        *(healthy_results if sink.display_options.lists_all else ()),
        *reversed(attention_results),
    ]
    if shown_results:
        named_results = [(result.display_path, result) for result in shown_results]
        columns = [*_DIRECTORY_COLUMNS]
        columns += (_COLUMN_BY_START_KIND[kind] for kind in check_results.shown_start_kinds)
        table = LineTable("directory", named_results, columns, theme, width)
        sink.write_line(
            table.format_heading()
            + "".join(
                table.format_line(directory_name, result)
                for directory_name, result in named_results
            )
        )
    if attention_results and len(shown_results) < len(results):
        message = format_count(len(healthy_results), "healthy directory", "healthy directories")
        sink.write_hint(f"{message} not shown; use --all to list them")
    if not (results or run.summary.n_unread_inputs):
        sink.write_hint("no damage in the files given; no start is predicted without a log", "good")
    if n_hidden_findings := sum(result.n_hidden_findings for result in results):
        message = f"{format_count(n_hidden_findings, 'finding')} hidden by --only or --ignore"
        sink.write_hint(f"{message}, but included in the start prediction")
    n_unread = run.summary.n_unread_inputs
    answer_lines = _answer_lines(check_results, steps, theme, n_unread)
    answer_lines += step_lines(steps, theme, width)
    if len(answer_lines) == 1 and not attention_results:
        run.summary.closing_text = answer_lines.pop()
    for line in answer_lines:  # a command is not wrapped
        sink.write_line(f"{line if line.startswith(' ') else wrap_long_lines(line, width)}\n")
    exit_code = run.finish()
    if answer_lines and check_results.next_starts:
        for line in verdict_lines(
            *(check_results.next_starts, check_results.coming_starts, steps, theme, width),
            n_unread,
            _find_known_losses(check_results),
        ):
            sink.write_line(f"{line}\n")
    sink.flush_texts()
    return exit_code


def _find_known_losses(check_results: CheckResults) -> KnownLosses:
    return KnownLosses(
        sum(len(identities.missing_alone) for identities in check_results.identities),
        tuple(
            escape_unprintable(identity.right_name)
            for identities in check_results.identities
            for identity in identities.directories
            if identity.situation is Situation.MISNAMED and identity.suffix
        ),
        any(result.lost_offsets for result in check_results.result_by_name.values()),
    )


def _answer_lines(
    check_results: CheckResults, steps: list[NextStep], theme: Theme, n_unread: int
) -> list[str]:
    """Lines that say whether a broker starts, and what is lost."""
    lines = [theme.paint("bold", line) for line in _deleted_record_lines(steps)]
    starts = check_results.shown_starts
    lines += next_start_lines(check_results.next_starts, starts, theme, n_unread)
    return lines + list(loss_lines(starts, theme))


def _deleted_record_lines(steps: list[NextStep]) -> list[str]:
    """A line about deleted records that a start would remove and salvage can bring back, if any."""
    directories = [step.file for step in steps if step.command.startswith(SALVAGE_DELETED_COMMAND)]
    if not directories:
        return []
    location_text = (
        escape_unprintable(directories[0])
        if len(directories) == 1
        else format_count(len(directories), "directory", "directories")
    )
    return [f"deleted records are still in {location_text}: bring them back before a broker starts"]


def _write_findings(
    run: CommandRun,
    results: list[DirectoryCheckResult],
    start_kinds: Sequence[str] = (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN),
) -> None:
    """Show the findings of each directory, with the predicted effect of starts of some kinds."""
    for result in results:
        has_damaged_log = bool(result.log_errors)
        for finding in result.findings:
            run.count_finding(finding)
            run.sink.write_finding(
                _with_predicted_effect(
                    adapt_to_place(finding), result, has_damaged_log, start_kinds
                )
            )
        run.report_suppressed_findings(result.display_path, result.findings)


def _to_file_result(directory_result: DirectoryCheckResult) -> FileResult:
    counts = {
        "segments": directory_result.segments,
        "records": directory_result.records,
        "bytes": directory_result.bytes,
    }
    file_result = FileResult(
        CHECK_RESULT,
        directory_result.display_path,
        "partition",
        counts,
        findings=directory_result.findings,
    )
    file_result.errors = directory_result.errors
    file_result.warnings = directory_result.warnings
    file_result.notes = directory_result.notes
    return file_result


def _with_predicted_effect(
    finding: Finding,
    result: DirectoryCheckResult,
    is_log_damaged: bool,
    start_kinds: Sequence[str],
) -> Finding:
    """A finding with the predicted effect of a start on this partition.

    An index's effect on lookups is not an effect on the partition: its findings keep their texts.
    """
    crash_start = result.find_start(AFTER_CRASH)
    clean_start = result.find_start(AFTER_CLEAN_SHUTDOWN)
    code = finding.code
    own_effects = code.after_crash, code.after_clean_shutdown
    if own_effects == (None, None):
        return finding
    effects: list[str | None] = list(own_effects)
    if crash_start is not None and clean_start is not None:
        effects = [
            _effect_text(finding, own_effect, start, is_log_damaged)
            for own_effect, start in zip(own_effects, (crash_start, clean_start), strict=True)
        ]
    if len(start_kinds) == 1:  # what happens then is "on the next start"
        is_after_clean_shutdown = start_kinds[0] == AFTER_CLEAN_SHUTDOWN
        effects = [effects[is_after_clean_shutdown]] * 2
        code = adapt_to_next_start(code, is_after_clean_shutdown)
    predicted_code = replace(code, after_crash=effects[0], after_clean_shutdown=effects[1])
    return replace(finding, code=predicted_code)


def _effect_text(
    finding: Finding, own_effect: str | None, start: PredictedStart, is_log_damaged: bool
) -> str:
    """The effect of a start on a partition with a finding. own_effect: the finding's own effect."""
    is_about_index = finding.file.endswith(_INDEX_SUFFIXES)
    hides_records = finding.code in _RECORD_HIDING_CODES and not start.has_effect
    if own_effect is None or start.is_failure or not (is_about_index or hides_records):
        return format_start_sentence(start)
    log_file_name = f"{finding.file.rpartition('.')[0]}{LOG_KIND.suffix}"
    if log_file_name in start.deleted:
        return "The broker deletes the segment."
    return (
        own_effect
        if is_log_damaged or not start.loses_data
        else f"{own_effect} {format_start_sentence(start)}"
    )
