"""The effect of a broker start on files, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import starmap

from kfmt_cli.broker.start.brokers import Next
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, OFFLINE, STRAY, UNSERVED, Start
from kfmt_cli.broker.start.ranges import Ranges, size_of_ranges, without
from kfmt_cli.broker.version import version_words
from kfmt_cli.render.style import Theme, count, fitted, grouped, range_words, safe

_BECOMES = {
    STRAY: "the broker renames the directory to -stray and does not serve it",
    OFFLINE: "the broker starts without this log directory; the partition is offline",
    UNSERVED: "the broker starts but does not serve the partition",
}
MOST_LINES = 10
MOST_LOST = 3  # partitions whose losses are listed one by one
LABELS = {CRASH: "after a crash", CLEAN: "after a clean shutdown"}
INTACT = "intact"  # a start that loses nothing


def start_words(start: Start, lost: Ranges) -> str:
    """A start in a few words, for a table. lost: offsets already lost."""
    if start.becomes is not None:
        return {STRAY: "renamed -stray"}.get(start.becomes, start.becomes)
    if not start.starts:
        return "does not start"
    words = []
    if start.lost:
        words.append(f"{count(size_of_ranges(start.lost), 'offset')} lost")
    if start.unreachable:
        words.append(f"{grouped(size_of_ranges(start.unreachable))} unreachable")
    if lost:
        words.append(f"{grouped(size_of_ranges(lost))} already lost")
    return ", ".join(words) or INTACT


def _refusal(start: Start) -> str | None:
    """The effect of a start that does not serve the partition; None for others."""
    if start.becomes is not None:
        return _BECOMES[start.becomes]
    return None if start.starts else "the broker does not start"


def outcome(start: Start) -> str:
    """The effect of a start on a partition, as a sentence."""
    words = _refusal(start) or "nothing in this partition is lost"
    if start.harms and not start.fails:
        words = "; ".join(_changes(start))
    return f"{words[0].upper()}{words[1:]}."


def _start_line(start: Start, label: str, theme: Theme) -> str:
    """The harmful effect of a start, as a line."""
    head = f"{theme.paint('bold', safe(start.file))} {label}: "
    if (words := _refusal(start)) is not None:
        return f"{head}{theme.paint('bad', words)}: {safe(start.why)}"
    return f"{head}{'; '.join(_changes(start))}"


def _start_lines(starts: Sequence[Start], theme: Theme) -> Iterator[str]:
    """The effects of starts, a line each; one line if both kinds have the same effect."""
    for i, start in enumerate(starts):
        if i and _same(starts[i - 1], start):
            continue
        following = starts[i + 1] if i + 1 < len(starts) else None
        is_any = following is not None and _same(start, following)
        yield _start_line(start, "on the next start" if is_any else LABELS[start.after], theme)


def _same(one: Start, other: Start) -> bool:
    """Whether two starts have the same effect on the same partition."""
    return replace(one, after=other.after) == other


def next_start_lines(
    nexts: Sequence[Next], starts: Sequence[Start], theme: Theme, unread: int = 0
) -> Iterator[str]:
    """Whether the broker starts, and what prevents it. unread: inputs that could not be read."""
    failing = [start for start in starts if start.fails and not start.is_consequence]
    yield from _start_lines(failing[:MOST_LINES], theme)
    if len(failing) > MOST_LINES:
        more = len({start.file for start in failing[MOST_LINES:]})
        words = count(more, "more partition or file", "more partitions and files")
        yield f"… and {words}; --json lists all"
    set_aside = {start.file for start in starts if start.is_consequence}
    if set_aside:
        number = len(set_aside)
        words = count(number, "partition is not served", "partitions are not served")
        yield theme.paint("bad", f"{words}, as this is another broker's log directory")
    directories: dict[str, list[str]] = {}
    for following in nexts:
        directories.setdefault(next_start_words(following, unread), []).append(following.file)
    for said, files in directories.items():
        where = "" if len(nexts) == 1 else f"{safe(files[0])}: "
        if len(files) > 1:
            where = f"{count(len(files), 'log directory', 'log directories')}: "
        yield theme.paint("bold", f"{where}{said}")
    if not nexts:
        yield theme.paint("bold", either_start_words(starts, unread))


def lost_lines(starts: Sequence[Start], theme: Theme) -> Iterator[str]:
    """Offsets lost by a start: for each partition, or the total if there are more than a few."""
    harmed = [start for start in starts if start.loses and not start.fails]
    if len({start.file for start in harmed}) <= MOST_LOST:
        yield from _start_lines(harmed, theme)
        return
    for kind in (CRASH, CLEAN):
        of_kind = [start for start in harmed if start.after == kind]
        said = []
        for ranges in ("lost", "unreachable"):
            hit = [getattr(start, ranges) for start in of_kind if getattr(start, ranges)]
            number = sum(map(size_of_ranges, hit))
            if number:
                place = count(len(hit), "partition")
                said.append(f"{count(number, 'offset')} {ranges} in {place}")
        if said:
            yield f"{LABELS[kind]}: {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """A step to take for a partition, and its cost."""

    file: str
    command: str
    price: str
    joint: str = ""
    """The command for all partitions of the log directory at once."""
    joint_price: str = ""
    """The cost of that command, of all partitions that have it."""


def commands_of(steps: Sequence[NextStep]) -> dict[str, str]:
    """The commands of steps, with their cost. Commands that share one for all partitions are
    replaced by it."""
    joint = Counter(step.joint for step in steps if step.joint)
    found: dict[str, str] = {}
    for step in steps:
        is_joint = joint[step.joint] > 1
        found[step.joint if is_joint else step.command] = (
            step.joint_price if is_joint else step.price
        )
    return found


def step_lines(steps: Sequence[NextStep], theme: Theme, width: int | None = None) -> Iterator[str]:
    """Next steps: commands with their cost."""
    found = commands_of(steps)
    if found:
        yield theme.paint("bold", "next steps")
    for command, price in list(found.items())[:MOST_LINES]:
        line = f"  {command}   {price}"
        if width is not None and len(line) > width:
            line = f"  {command}\n{fitted(f'      {price}', width)}"
        yield line
    if len(found) > MOST_LINES:
        yield f"  … and {count(len(found) - MOST_LINES, 'more step')}; --json lists all"


def _changes(start: Start) -> list[str]:
    """The state in which a start leaves a partition, in words."""
    words = [f"log end offset {start.log_end_offset}"]
    words += [
        f"{safe(_last(file))} is truncated to {grouped(size)} bytes" for file, size in start.cut
    ]
    if len(start.deleted) > 2:
        words.append(f"{count(len(start.deleted), 'file')} deleted")
    else:
        words += [f"{safe(_last(path))} is deleted" for path in start.deleted]
    if start.lost:
        words.append(f"offsets {_ranges(start.lost)} are lost")
    never = without(start.unreachable, start.passing)
    if never:
        words.append(f"offsets {_ranges(never)} are unreachable for consumers")
    if start.passing:
        words.append(
            f"offsets {_ranges(start.passing)} are delivered only to consumers that come from "
            "lower offsets"
        )
    return words


def _last(file: str) -> str:
    return file.rpartition("/")[2]


def _ranges(ranges: list[tuple[int, int]]) -> str:
    shown = starmap(range_words, ranges[:3])
    more = f" and {len(ranges) - 3} more ranges" if len(ranges) > 3 else ""
    return ", ".join(shown) + more


def _unknown(unread: int) -> str:
    """The words for a start that unread inputs may prevent."""
    return f"{count(unread, 'input')} not read: no broker start predicted"


def next_start_words(following: Next, unread: int = 0) -> str:
    """The kind of the next start in a log directory, and whether the broker starts."""
    marker = "no .kafka_cleanshutdown: the next start runs log recovery"
    if following.after == CLEAN:
        marker = ".kafka_cleanshutdown present: the next start skips log recovery"
    end = "the broker would start" if following.starts else "the broker would not start"
    if following.starts and unread:
        end = _unknown(unread)
    elif following.becomes is not None:
        end += " without this log directory"
    retry = ""
    if not following.starts and following.after == CLEAN and following.retry == CRASH:
        retry = (
            "; that attempt deletes .kafka_cleanshutdown, so the following start runs log recovery"
        )
    return f"{marker}; {end}{retry} ({version_words([following.kafka])})"


def either_start_words(starts: Sequence[Start], unread: int = 0) -> str:
    """Whether a broker starts if it is unknown how it stopped."""
    if not starts:
        words = "not a partition directory: no broker start predicted"
        return _unknown(unread) if unread else words
    version = version_words(start.kafka for start in starts)
    fails = {start.after for start in starts if not start.starts}
    if unread and len(fails) < 2:
        return _unknown(unread)
    crash, clean = (
        "would not start" if kind in fails else "would start" for kind in (CRASH, CLEAN)
    )
    if crash == clean:
        return f"the broker {crash}, after a crash or a clean shutdown alike ({version})"
    return f"the broker {crash} after a crash but {clean} after a clean shutdown ({version})"
