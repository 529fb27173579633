"""The effect of a broker start on the selection: whether the broker starts, what is lost, what to
do, and the effect on each directory. All of it comes from `kfmt check`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter

from kfmt_cli.broker.log_reading.offset_intervals import count_offsets
from kfmt_cli.broker.start.outcome import AFTER_CLEAN_SHUTDOWN, AFTER_CRASH, PredictedStart
from kfmt_cli.commands.check.command import CheckCommand
from kfmt_cli.commands.check.directory_result import CHECK_RESULT
from kfmt_cli.commands.check.options import CheckOptions
from kfmt_cli.commands.check.result_output import show_check_results
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.render.start_lines import (
    INTACT_TEXT,
    START_LABELS,
    NextStep,
    format_start,
    step_lines,
)
from kfmt_cli.render.style import NO_COLOUR, quote_path_for_shell
from kfmt_cli.render.tables.line_table import LineColumn, LineTable

MAX_DIRECTORY_ROWS = 1000
StartByShutdown = dict[str, PredictedStart]
"""The predicted starts on a directory, by the kind of shutdown before them."""


class _CheckAnswerSink(Sink):
    """Collects the lines of the answer of `check`."""

    def __init__(self, run: CommandRun) -> None:
        super().__init__(run.sink.streams)
        self._screen_sink = run.sink
        self.answer_lines: list[str] = []

    def add_answer(self, text: str) -> None:
        self.answer_lines.append(text)

    def add_next_steps(self, steps: Sequence[NextStep]) -> None:
        self.answer_lines += step_lines(steps, NO_COLOUR)
        self._screen_sink.add_next_steps(steps)


def _worst_first_sort_key(start_by_shutdown: StartByShutdown) -> tuple[int, ...]:
    """Sort key: the worst directories first."""
    starts = start_by_shutdown.values()
    n_lost = sum(count_offsets(start.lost) for start in starts)
    n_unreachable = sum(count_offsets(start.unreachable) for start in starts)
    return (-any(start.is_failure for start in starts), -n_lost, -n_unreachable)


def _start_column(shutdown_kind: str) -> LineColumn[StartByShutdown]:
    def start_text(start_by_shutdown: StartByShutdown) -> str:
        return (
            format_start(start_by_shutdown[shutdown_kind], [])
            if shutdown_kind in start_by_shutdown
            else ""
        )

    def start_style(start_by_shutdown: StartByShutdown) -> str:
        return "good" if start_text(start_by_shutdown) in (INTACT_TEXT, "") else "bad"

    return LineColumn(
        START_LABELS[shutdown_kind], start_text, align_right=False, cell_style=start_style
    )


def show_predicted_starts(
    run: CommandRun, paths: tuple[str, ...], partition_names: Sequence[str]
) -> None:
    """Show the effect of a start. partition_names: the paths of the partitions as a user types
    them."""
    theme, width = run.sink.streams.theme, run.sink.streams.width
    answer_sink = _CheckAnswerSink(run)
    check_run = CommandRun(run.output, answer_sink)
    check_run.set_result_type(CHECK_RESULT)
    check_result = CheckCommand(check_run, CheckOptions(jobs=1)).check_paths(paths)
    show_check_results(check_run, check_result)
    run.sink.write_line("".join(f"{line}\n" for line in answer_sink.answer_lines))
    directory_results = sorted(check_result.result_by_name.values(), key=attrgetter("rank"))
    # Directories with equal starts stay in the order of their rank, as sorting is stable.
    starts_by_directory: dict[str, StartByShutdown] = {
        result.display_path: {} for result in directory_results
    }
    for predicted_start in check_result.predicted_starts:
        starts_by_directory.setdefault(predicted_start.file, {})[predicted_start.after] = (
            predicted_start
        )
    ranked_directories = sorted(
        filter(itemgetter(1), starts_by_directory.items()),
        key=lambda entry: _worst_first_sort_key(entry[1]),
    )
    start_table = LineTable(
        "directory",
        ranked_directories,
        (_start_column(AFTER_CRASH), _start_column(AFTER_CLEAN_SHUTDOWN)),
        theme,
        width,
    )
    if ranked_directories:
        run.sink.write_line("\n" + start_table.format_heading())
        run.sink.write_line(
            "".join(
                start_table.format_line(directory_path, starts)
                for directory_path, starts in ranked_directories[:MAX_DIRECTORY_ROWS]
            )
        )
    if len(ranked_directories) > MAX_DIRECTORY_ROWS:
        run.sink.write_line(f"… and {len(ranked_directories) - MAX_DIRECTORY_ROWS} more\n")
    worst_partition = next(
        (
            directory_path
            for directory_path, _ in ranked_directories
            if directory_path in partition_names
        ),
        next(iter(partition_names), ""),
    )
    if worst_partition:
        run.sink.write_line(
            f"\n$ kfmt explain recovery {quote_path_for_shell(worst_partition)}   explains it "
            "step by step\n"
        )
    run.sink.flush_texts()
