"""The effect of a broker start on the selection: whether the broker starts, what is lost, what to
do, and the effect on each directory. All of it comes from `kfmt check`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter

from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Start
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
from kfmt_cli.commands.check.command import CheckPaths
from kfmt_cli.commands.check.show import show
from kfmt_cli.commands.run import Run
from kfmt_cli.render.sinks.sink import Sink
from kfmt_cli.render.start_lines import INTACT, LABELS, NextStep, start_words, step_lines
from kfmt_cli.render.style import PLAIN, shell_path
from kfmt_cli.render.tables.line_table import LineColumn, LineTable

MOST_ROWS = 1000
Starts = dict[str, Start]
"""The predicted starts on a directory, by the kind of shutdown before them."""


class _AnswerSink(Sink):
    """Keeps the answers of check."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.sink.out)
        self.answers: list[str] = []

    def answer(self, words: str) -> None:
        self.answers.append(words)

    def next_steps(self, steps: Sequence[NextStep]) -> None:
        self.answers += step_lines(steps, PLAIN)


def _rank(starts: Starts) -> tuple[int, ...]:
    """Sort key: the worst directories first."""
    every = starts.values()
    gone = sum(size_of_ranges(start.lost) for start in every)
    away = sum(size_of_ranges(start.unreachable) for start in every)
    return (-any(start.fails for start in every), -gone, -away)


def _column(after: str) -> LineColumn[Starts]:
    def words(starts: Starts) -> str:
        return start_words(starts[after], []) if after in starts else ""

    def style(starts: Starts) -> str:
        return "good" if words(starts) in (INTACT, "") else "bad"

    return LineColumn(LABELS[after], words, right=False, style=style)


def show_start(run: Run, paths: tuple[str, ...], names: Sequence[str]) -> None:
    """Show the effect of a start. names: the partitions, as a user types them."""
    theme, width = run.sink.out.theme, run.sink.out.width
    kept = _AnswerSink(run)
    checking = Run(run.host, kept, CHECK_RESULT)
    checked = CheckPaths(checking).look(paths)
    show(checking, checked)
    run.sink.put("".join(f"{line}\n" for line in kept.answers))
    ranked = sorted(checked.reports.values(), key=attrgetter("rank"))
    every: dict[str, Starts] = {report.shown: {} for report in ranked}  # of equal starts, in order
    for start in checked.starts:
        every.setdefault(start.file, {})[start.after] = start
    found = sorted(filter(itemgetter(1), every.items()), key=lambda pair: _rank(pair[1]))
    table = LineTable("directory", found, (_column(CRASH), _column(CLEAN)), theme, width)
    if found:
        run.sink.put("\n" + table.heading())
        run.sink.put("".join(table.line(name, row) for name, row in found[:MOST_ROWS]))
    if len(found) > MOST_ROWS:
        run.sink.put(f"… and {len(found) - MOST_ROWS} more\n")
    worst = next((name for name, _ in found if name in names), next(iter(names), ""))
    if worst:
        run.sink.put(f"\n$ kfmt explain recovery {shell_path(worst)}   explains it step by step\n")
    run.sink.flush()
