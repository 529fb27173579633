"""The verdict of a check in at most six lines: the next start, what it loses, and the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kfmt_cli.broker.log_reading.offset_intervals import OffsetIntervals, count_offsets
from kfmt_cli.broker.start.checkpoints import METADATA_LOG_NAME
from kfmt_cli.broker.start.outcome import (
    AFTER_CLEAN_SHUTDOWN,
    OFFLINE,
    UNSERVED,
    NextStart,
    PredictedStart,
)
from kfmt_cli.broker.version import format_predicted_versions
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name
from kfmt_cli.render.start_lines import NextStep, command_prices
from kfmt_cli.render.style import Theme, escape_unprintable, format_count, format_range

MAX_VERDICT_STEPS = 3  # with the lines before and after them, six
CHECK_FIRST = "check again, before the broker starts"
_LABEL_WIDTH = 12
_MAX_LOSING_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class KnownLosses:
    """What is gone, whatever the next start does."""

    n_missing_partitions: int = 0
    """Number of partitions of the broker alone without a directory."""
    set_aside_partitions: tuple[str, ...] = ()
    """The partitions whose only directory is marked -delete or -stray."""
    has_lost_offsets: bool = False
    """Whether other files prove that logs lack offsets."""

    @property
    def has_any(self) -> bool:
        """Whether anything is gone."""
        return self.has_lost_offsets or self.n_missing_partitions > 0


NO_LOSSES = KnownLosses()


def verdict_lines(
    next_starts: Sequence[NextStart],
    starts: Sequence[PredictedStart],
    steps: Sequence[NextStep],
    theme: Theme,
    width: int | None,
    n_unread: int = 0,
    losses: KnownLosses = NO_LOSSES,
) -> list[str]:
    """The lines, each shortened to the width.

    next_starts: the next start of each log directory. starts: the predicted starts on partitions
    and files. steps: the plan. n_unread: number of inputs that could not be read. losses: what is
    gone before the start.
    """
    kinds = {next_start.after for next_start in next_starts}
    coming_starts = [start for start in starts if start.after in kinds]
    lines = [("NEXT START", _start_text(next_starts, coming_starts, n_unread))]
    lines.append(("after that", _loss_text(coming_starts, losses)))
    commands = list(command_prices(steps))
    for number, command in enumerate(commands[:MAX_VERDICT_STEPS], 1):
        lines.append(("do" if number == 1 else "", f"{number}  {_shorten_middle(command, width)}"))
    if steps:
        more = len(commands) - MAX_VERDICT_STEPS
        last = "start the broker, and check again"
        if any(_is_loaded_after(steps, start) for start in coming_starts):
            last = CHECK_FIRST  # what its log loses is not known yet
        if more > 0:
            last = f"{format_count(more, 'more step')} above; then {last}"
        lines.append(("", f"{min(len(commands), MAX_VERDICT_STEPS) + 1}  {last}"))
    return [
        theme.paint("bold", f"{label:{_LABEL_WIDTH}}") + _shorten(text, width)
        for label, text in lines
    ]


def _start_text(
    next_starts: Sequence[NextStart], coming_starts: Sequence[PredictedStart], n_unread: int
) -> str:
    versions = format_predicted_versions([start.predicted_version for start in next_starts])
    failures = [start for start in coming_starts if not start.starts]
    if any(not next_start.starts for next_start in next_starts):
        reason = next(
            (
                start.reason.replace(f"{start.file.rstrip('/')}/", "")
                for start in next_starts
                if start.reason
            ),
            "",
        )
        n_causes = len({start.file for start in failures})
        count_text = f", for {n_causes} reasons" if n_causes > 1 else ""
        return f"the broker does not start{count_text}: {escape_unprintable(reason)}"
    if n_unread:
        return f"{format_count(n_unread, 'input')} not read: no broker start predicted"
    has_recovery = any(next_start.after != AFTER_CLEAN_SHUTDOWN for next_start in next_starts)
    recovery_text = "recovers its logs" if has_recovery else "skips log recovery"
    return f"the broker starts and {recovery_text} ({versions})"


def _loss_text(coming_starts: Sequence[PredictedStart], losses: KnownLosses) -> str:
    """What consumers no longer get after the start, by partition."""
    unserved = [start for start in coming_starts if start.becomes is not None]
    losing = [start for start in coming_starts if start.loses_data and start.becomes is None]
    texts = []
    if losing:
        n_offsets = sum(count_offsets(_harmed(start)) for start in losing)
        partitions = [
            f"{_partition_name(start)} {_ranges(_harmed(start))}"
            for start in losing[:_MAX_LOSING_PARTITIONS]
        ]
        if len(losing) > _MAX_LOSING_PARTITIONS:
            partitions.append("…")
        kinds = [
            kind
            for kind, has_it in (
                ("lost", any(start.lost for start in losing)),
                ("unreachable", any(start.unreachable for start in losing)),
            )
            if has_it
        ]
        texts.append(
            f"{format_count(n_offsets, 'offset')} {' or '.join(kinds)}: {', '.join(partitions)}"
        )
    unserved_names = [*losses.set_aside_partitions, *map(_partition_name, unserved)]
    if unserved_names:
        names = ", ".join(unserved_names[:_MAX_LOSING_PARTITIONS])
        texts.append(f"{format_count(len(unserved_names), 'partition')} not served: {names}")
    not_loaded = list(dict.fromkeys(map(_partition_name, filter(_is_not_loaded, coming_starts))))
    if not_loaded:
        names = ", ".join(not_loaded[:_MAX_LOSING_PARTITIONS])
        texts.append(f"not known before the steps are done: what {names} loses")
    elif any(not start.starts for start in coming_starts):
        texts = texts or ["once the steps are done, nothing more is lost"]
    texts = texts or ["nothing more is lost" if losses.has_any else "nothing is lost"]
    if losses.n_missing_partitions:
        count = format_count(losses.n_missing_partitions, "partition")
        texts.append(f"{count} without a directory")
    return "; ".join(texts)


def _is_not_loaded(start: PredictedStart) -> bool:
    """Whether the broker stops at a partition's directory, before the end of its log."""
    name = _partition_name(start)
    is_directory = classify_name(name)[0] is UNKNOWN_KIND
    return not start.starts and is_directory and name != METADATA_LOG_NAME


def _is_loaded_after(steps: Sequence[NextStep], start: PredictedStart) -> bool:
    """Whether the next start does not load a partition's log, and will after the steps."""
    if start.becomes is None:
        return _is_not_loaded(start)
    name = start.file.rstrip("/")
    return start.becomes in (OFFLINE, UNSERVED) or any(
        name in (step.file.rstrip("/"), *step.mends) for step in steps
    )


def _harmed(start: PredictedStart) -> OffsetIntervals:
    return [*start.lost, *start.unreachable]


def _partition_name(start: PredictedStart) -> str:
    return escape_unprintable(start.file.rstrip("/").rpartition("/")[2])


def _ranges(intervals: OffsetIntervals) -> str:
    texts: Iterator[str] = (format_range(first, last) for first, last in intervals[:2])
    return " ".join(texts) + (" …" if len(intervals) > 2 else "")


def _shorten(text: str, width: int | None) -> str:
    room = None if width is None else width - _LABEL_WIDTH
    return text if room is None or len(text) <= room else f"{text[: room - 1]}…"


def _shorten_middle(command: str, width: int | None) -> str:
    """A command with the directories of its paths left out, if it is too long."""
    room = None if width is None else width - _LABEL_WIDTH - 3
    if room is None or len(command) <= room:
        return command
    words = command.split(" ")
    return " ".join(
        f"…/{word.rpartition('/')[2]}" if word.count("/") > 1 else word for word in words
    )
