"""The effect of a broker start on the selection: whether the broker starts, what is lost, what to
do, and the effect on each directory. All of it comes from `kfmt check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Start
from kfmt_cli.broker.start.ranges import size_of_ranges
from kfmt_cli.commands.check.checked_directory import CHECK_RESULT
from kfmt_cli.commands.check.command import CheckPaths
from kfmt_cli.commands.run import Run
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.render.sinks.silent import Silent
from kfmt_cli.render.start_lines import INTACT, LABELS, Step, start_words, step_lines
from kfmt_cli.render.style import PLAIN, shell_quoted
from kfmt_cli.render.tables.line_table import LineColumn, LineTable
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.documents import BROKER_START, PARTITION

MOST_ROWS = 1000
Starts = dict[str, Start]
"""The predicted starts on a directory, by the kind of shutdown before them."""


class _StartSink(Silent):
    """Keeps the answers of check, and the starts it predicts."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.sink.out)
        self.answers: list[str] = []
        self.starts: dict[str, Starts] = {}

    def answer(self, words: str) -> None:
        self.answers.append(words)

    def next_steps(self, steps: Sequence[Step]) -> None:
        self.answers += step_lines(steps, PLAIN)

    def document(self, type_: RowType, row: Mapping[str, object], lines: Iterable[str]) -> None:
        del lines
        if type_ in (PARTITION, BROKER_START):
            shown = Fields(row)
            known = self.starts.setdefault(shown.file, {})
            if type_ is BROKER_START:
                start = _start_of(shown)
                known[start.after] = start


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory with the starts predicted for it."""

    starts: Starts

    @property
    def rank(self) -> tuple[int, ...]:
        """Sort key: the worst directories first."""
        every = self.starts.values()
        gone = sum(size_of_ranges(start.lost) for start in every)
        away = sum(size_of_ranges(start.unreachable) for start in every)
        fails = any(start.fails or not start.starts for start in every)
        return (-fails, -gone, -away, -any(start.harms for start in every))

    def words(self, after: str) -> str:
        """The effect of a start on the directory."""
        start = self.starts.get(after)
        return "" if start is None else start_words(start, [])

    def style(self, after: str) -> str:
        """The style of the effect."""
        return "good" if self.words(after) in (INTACT, "") else "bad"


def _column(after: str) -> LineColumn[_Directory]:
    return LineColumn(
        LABELS[after],
        lambda directory: directory.words(after),
        right=False,
        style=lambda directory: directory.style(after),
    )


_COLUMNS = (_column(CRASH), _column(CLEAN))


def _start_of(row: Fields) -> Start:
    """The start from a row of the JSON contract, with only the fields shown."""
    start = Start(row.file, row.after, row.reason, becomes=row.becomes)
    start.lost = [(first, last) for first, last in row.lost_offsets]
    start.unreachable = [(first, last) for first, last in row.unreachable_offsets]
    return start


def show_start(run: Run, paths: tuple[str, ...], names: Sequence[str]) -> None:
    """Show the effect of a start. names: the partitions, as a user types them."""
    theme, width = run.sink.out.theme, run.sink.out.width
    kept = _StartSink(run)
    CheckPaths(Run(run.host, kept, CHECK_RESULT)).paths(paths)
    kept.flush()
    run.sink.put("".join(f"{line}\n" for line in kept.answers))
    found = [(name, _Directory(starts)) for name, starts in kept.starts.items() if starts]
    found.sort(key=lambda pair: pair[1].rank)
    table = LineTable("directory", found, _COLUMNS, theme, width)
    if found:
        run.sink.put("\n" + table.heading())
        run.sink.put("".join(table.line(name, row) for name, row in found[:MOST_ROWS]))
    if len(found) > MOST_ROWS:
        run.sink.put(f"… and {len(found) - MOST_ROWS} more\n")
    worst = next((name for name, _ in found if name in names), next(iter(names), ""))
    if worst:
        run.sink.put(
            f"\n$ kfmt explain recovery {shell_quoted(worst)}   explains it step by step\n"
        )
    run.sink.flush()
