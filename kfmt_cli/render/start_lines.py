"""The effect of a broker start on files, as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import starmap

from kfmt_cli.broker.log_reading.offset_intervals import (
    OffsetIntervals,
    count_offsets,
    subtract_intervals,
)
from kfmt_cli.broker.start.outcome import (
    AFTER_CLEAN_SHUTDOWN,
    AFTER_CRASH,
    OFFLINE,
    STRAY,
    UNSERVED,
    NextStart,
    PredictedStart,
)
from kfmt_cli.broker.version import format_predicted_versions
from kfmt_cli.render.style import (
    Theme,
    escape_unprintable,
    format_count,
    format_range,
    format_thousands,
    wrap_long_lines,
)

_TEXT_BY_NEW_STATE = {
    STRAY: "the broker renames the directory to -stray and does not serve it",
    OFFLINE: "the broker starts without this log directory; the partition is offline",
    UNSERVED: "the broker starts but does not serve the partition",
}
MAX_START_LINES = 10
MAX_LOST_PARTITIONS = 3  # partitions whose losses are listed one by one
START_LABELS = {AFTER_CRASH: "after a crash", AFTER_CLEAN_SHUTDOWN: "after a clean shutdown"}
INTACT_TEXT = "intact"  # a start that loses nothing


def format_start(start: PredictedStart, already_lost_offsets: OffsetIntervals) -> str:
    """A short description of a start, for a table. already_lost_offsets: offsets lost before the
    start."""
    if start.becomes is not None:
        return {STRAY: "renamed -stray"}.get(start.becomes, start.becomes)
    if not start.starts:
        return "does not start"
    effect_texts = []
    if start.lost:
        effect_texts.append(f"{format_count(count_offsets(start.lost), 'offset')} lost")
    if start.unreachable:
        effect_texts.append(f"{format_thousands(count_offsets(start.unreachable))} unreachable")
    if already_lost_offsets:
        effect_texts.append(f"{format_thousands(count_offsets(already_lost_offsets))} already lost")
    return ", ".join(effect_texts) or INTACT_TEXT


def _describe_refusal(start: PredictedStart) -> str | None:
    """The effect of a start that does not serve the partition; None for other starts."""
    if start.becomes is not None:
        return _TEXT_BY_NEW_STATE[start.becomes]
    return None if start.starts else "the broker does not start"


def format_start_sentence(start: PredictedStart) -> str:
    """The effect of a start on a partition, as a sentence."""
    sentence = _describe_refusal(start) or "nothing in this partition is lost"
    if start.has_effect and not start.is_failure:
        sentence = "; ".join(_describe_changes(start))
    return f"{sentence[0].upper()}{sentence[1:]}."


def _format_start_line(start: PredictedStart, label: str, theme: Theme) -> str:
    """The harmful effect of a start, as a line."""
    prefix = f"{theme.paint('bold', escape_unprintable(start.file))} {label}: "
    if (refusal := _describe_refusal(start)) is not None:
        return (
            f"{prefix}{theme.paint('bad', refusal)}: "
            f"{escape_unprintable(start.reason_without_file)}"
        )
    return f"{prefix}{'; '.join(_describe_changes(start))}"


def _start_lines(starts: Sequence[PredictedStart], theme: Theme) -> Iterator[str]:
    """The effects of starts, one line per start; one line for two successive starts on the same
    partition that have the same effect."""
    for i, start in enumerate(starts):
        if i and _has_same_effect(starts[i - 1], start):
            continue
        following_start = starts[i + 1] if i + 1 < len(starts) else None
        has_same_effect = following_start is not None and _has_same_effect(start, following_start)
        yield _format_start_line(
            start, "on the next start" if has_same_effect else START_LABELS[start.after], theme
        )


def _has_same_effect(left: PredictedStart, right: PredictedStart) -> bool:
    """Whether two starts have the same effect on the same partition."""
    return replace(left, after=right.after) == right


def next_start_lines(
    next_starts: Sequence[NextStart],
    starts: Sequence[PredictedStart],
    theme: Theme,
    n_unread: int = 0,
) -> Iterator[str]:
    """Whether the broker starts, and what prevents it. n_unread: number of inputs that could not
    be read."""
    failing_starts = [start for start in starts if start.is_failure and not start.is_consequence]
    yield from _start_lines(failing_starts[:MAX_START_LINES], theme)
    if len(failing_starts) > MAX_START_LINES:
        n_omitted_files = len({start.file for start in failing_starts[MAX_START_LINES:]})
        count_text = format_count(
            n_omitted_files, "more partition or file", "more partitions and files"
        )
        yield f"… and {count_text}; --json lists all"
    unserved_files = {start.file for start in starts if start.is_consequence}
    if unserved_files:
        n_unserved = len(unserved_files)
        count_text = format_count(
            n_unserved, "partition is not served", "partitions are not served"
        )
        yield theme.paint("bad", f"{count_text}, as this is another broker's log directory")
    directories_by_text: dict[str, list[str]] = {}
    for next_start in next_starts:
        directories_by_text.setdefault(format_next_start(next_start, n_unread), []).append(
            next_start.file
        )
    for start_text, directories in directories_by_text.items():
        prefix = "" if len(next_starts) == 1 else f"{escape_unprintable(directories[0])}: "
        if len(directories) > 1:
            prefix = f"{format_count(len(directories), 'log directory', 'log directories')}: "
        yield theme.paint("bold", f"{prefix}{start_text}")
    if not next_starts:
        yield theme.paint("bold", format_start_after_unknown_stop(starts, n_unread))


def loss_lines(starts: Sequence[PredictedStart], theme: Theme) -> Iterator[str]:
    """Offsets lost by a start: per partition, or the total for more than `MAX_LOST_PARTITIONS`."""
    losing_starts = [start for start in starts if start.loses_data and not start.is_failure]
    if len({start.file for start in losing_starts}) <= MAX_LOST_PARTITIONS:
        yield from _start_lines(losing_starts, theme)
        return
    for shutdown_kind in (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN):
        starts_of_kind = [start for start in losing_starts if start.after == shutdown_kind]
        loss_texts = []
        for loss_kind in ("lost", "unreachable"):
            interval_lists = [
                getattr(start, loss_kind) for start in starts_of_kind if getattr(start, loss_kind)
            ]
            n_offsets = sum(map(count_offsets, interval_lists))
            if n_offsets:
                partitions_text = format_count(len(interval_lists), "partition")
                loss_texts.append(
                    f"{format_count(n_offsets, 'offset')} {loss_kind} in {partitions_text}"
                )
        if loss_texts:
            yield f"{START_LABELS[shutdown_kind]}: {', '.join(loss_texts)}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """A step to take for a partition, and its cost."""

    file: str
    command: str
    price: str
    joint_command: str = ""
    """The command for all partitions of the log directory at once."""
    joint_price: str = ""
    """The total cost of the joint command."""
    order: int = 0
    """Its place in the plan, from 1."""
    reads: int = 0
    """Number of bytes that it reads."""
    loses: int = 0
    """Number of records that the start after it loses, and would not lose without it."""
    hides: int = 0
    """Number of records that read_committed consumers do not receive then, and would without it."""
    mends: frozenset[str] = frozenset()
    """The files and directories whose problem it solves."""


def command_prices(steps: Sequence[NextStep]) -> dict[str, str]:
    """The cost by command, in the order of the steps. Commands that share a joint command are
    replaced by it."""
    n_by_joint_command = Counter(step.joint_command for step in steps if step.joint_command)
    price_by_command: dict[str, str] = {}
    for step in steps:
        is_joint = n_by_joint_command[step.joint_command] > 1
        price_by_command[step.joint_command if is_joint else step.command] = (
            step.joint_price if is_joint else step.price
        )
    return price_by_command


def step_lines(steps: Sequence[NextStep], theme: Theme, width: int | None = None) -> Iterator[str]:
    """Next steps: commands with their cost."""
    price_by_command = command_prices(steps)
    if price_by_command:
        yield theme.paint("bold", "next steps")
    for command, price in list(price_by_command.items())[:MAX_START_LINES]:
        step_text = f"  {command}   {price}"
        if width is not None and len(step_text) > width:
            step_text = f"  {command}\n{wrap_long_lines(f'      {price}', width)}"
        yield step_text
    if len(price_by_command) > MAX_START_LINES:
        yield (
            f"  … and {format_count(len(price_by_command) - MAX_START_LINES, 'more step')}; "
            "--json lists all"
        )


def _describe_changes(start: PredictedStart) -> list[str]:
    """Descriptions of the state in which a start leaves a partition."""
    changes = [f"log end offset {start.log_end_offset}"]
    changes += [
        f"{escape_unprintable(_file_name(file))} is truncated to {format_thousands(n_bytes)} bytes"
        for file, n_bytes in start.cut
    ]
    if len(start.deleted) > 2:
        changes.append(f"{format_count(len(start.deleted), 'file')} deleted")
    else:
        changes += [f"{escape_unprintable(_file_name(path))} is deleted" for path in start.deleted]
    if start.lost:
        changes.append(f"offsets {_format_ranges(start.lost)} are lost")
    unreachable_intervals = subtract_intervals(start.unreachable, start.received_in_sequence)
    if unreachable_intervals:
        changes.append(
            f"offsets {_format_ranges(unreachable_intervals)} are unreachable for consumers"
        )
    if start.hidden is not None:
        changes.append(
            f"read_committed consumers stop at offset {start.last_stable_offset}: offsets "
            f"{_format_ranges([start.hidden])} are hidden until the open transaction ends"
        )
    if start.received_in_sequence:
        changes.append(
            f"offsets {_format_ranges(start.received_in_sequence)} are delivered only to "
            "consumers that come from lower offsets"
        )
    return changes


def _file_name(file: str) -> str:
    return file.rpartition("/")[2]


def _format_ranges(offset_ranges: list[tuple[int, int]]) -> str:
    range_texts = starmap(format_range, offset_ranges[:3])
    more_text = f" and {len(offset_ranges) - 3} more ranges" if len(offset_ranges) > 3 else ""
    return ", ".join(range_texts) + more_text


def _unpredicted_text(n_unread: int) -> str:
    """The text for a start that unread inputs may prevent."""
    return f"{format_count(n_unread, 'input')} not read: no broker start predicted"


def format_next_start(next_start: NextStart, n_unread: int = 0) -> str:
    """The kind of the next start in a log directory, and whether the broker starts."""
    marker_text = "no .kafka_cleanshutdown: the next start runs log recovery"
    if next_start.after == AFTER_CLEAN_SHUTDOWN:
        marker_text = ".kafka_cleanshutdown present: the next start skips log recovery"
    outcome_text = "the broker would start" if next_start.starts else "the broker would not start"
    if next_start.starts and n_unread:
        outcome_text = _unpredicted_text(n_unread)
    elif next_start.becomes is not None:
        outcome_text += " without this log directory"
    retry_text = ""
    if (
        not next_start.starts
        and next_start.after == AFTER_CLEAN_SHUTDOWN
        and next_start.retry == AFTER_CRASH
    ):
        retry_text = (
            "; that attempt deletes .kafka_cleanshutdown, so the following start runs log recovery"
        )
    return (
        f"{marker_text}; {outcome_text}{retry_text} "
        f"({format_predicted_versions([next_start.predicted_version])})"
    )


def format_start_after_unknown_stop(
    starts: Sequence[PredictedStart], n_unread_partitions: int = 0
) -> str:
    """Whether a broker starts if it is unknown how it stopped."""
    if not starts:
        no_partition_text = "not a partition directory: no broker start predicted"
        return _unpredicted_text(n_unread_partitions) if n_unread_partitions else no_partition_text
    versions_text = format_predicted_versions(start.predicted_version for start in starts)
    stop_kinds_without_start = {start.after for start in starts if not start.starts}
    if n_unread_partitions and len(stop_kinds_without_start) < 2:
        return _unpredicted_text(n_unread_partitions)
    crash_outcome, clean_outcome = (
        "would not start" if stop_kind in stop_kinds_without_start else "would start"
        for stop_kind in (AFTER_CRASH, AFTER_CLEAN_SHUTDOWN)
    )
    if crash_outcome == clean_outcome:
        return (
            f"the broker {crash_outcome}, after a crash or a clean shutdown alike ({versions_text})"
        )
    return (
        f"the broker {crash_outcome} after a crash but {clean_outcome} after a clean "
        f"shutdown ({versions_text})"
    )
