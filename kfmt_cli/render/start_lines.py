"""What a broker would make of files when it starts, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.broker.start.brokers import Next
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, OFFLINE, STRAY, UNSERVED, Start
from kfmt_cli.broker.start.ranges import Ranges, size_of_ranges
from kfmt_cli.render.style import Theme, count, grouped, safe

_BECOMES = {
    STRAY: "the broker renames the directory to -stray, and consumers see nothing of it",
    OFFLINE: "the broker starts without this log directory, and the partition is offline",
    UNSERVED: "the broker starts and does not serve the partition",
}
LABELS = {CRASH: "after a crash", CLEAN: "after a clean shutdown"}


def start_words(start: Start, lost: Ranges) -> str:
    """A start in a few words, for a table. lost: what is gone already."""
    if start.becomes is not None:
        return {STRAY: "renamed -stray"}.get(start.becomes, start.becomes)
    if not start.starts:
        return "does not start"
    words = []
    if start.lost:
        words.append(f"{grouped(size_of_ranges(start.lost))} offsets go")
    if start.unreachable:
        words.append(f"{grouped(size_of_ranges(start.unreachable))} out of reach")
    if lost:
        words.append(f"{grouped(size_of_ranges(lost))} lost before")
    return ", ".join(words) or "whole"


def outcome(start: Start) -> str:
    """What a start does with a partition, as a sentence."""
    if start.becomes is not None:
        words = _BECOMES[start.becomes]
    elif not start.starts:
        words = "the broker does not start"
    else:
        words = "; ".join(_changes(start)) if start.harms else "nothing of this partition is lost"
    return f"{words[0].upper()}{words[1:]}."


def start_lines(start: Start, label: str, theme: Theme) -> Iterator[str]:
    """What a start does that somebody should know."""
    if not start.harms:
        return
    head = f"{theme.paint('bold', safe(start.file))} {label}: "
    if start.becomes is not None:
        yield f"{head}{theme.paint('bad', _BECOMES[start.becomes])}: {safe(start.reason or '')}\n"
        return
    if not start.starts:
        words_ = theme.paint("bad", "the broker does not start")
        yield f"{head}{words_}: {safe(start.reason or '')}\n"
        return
    yield f"{head}{'; '.join(_changes(start))}\n"


def _changes(start: Start) -> list[str]:
    """What a start leaves of a partition, in words."""
    words = [f"the log ends at {start.log_end_offset}"]
    words += [f"{safe(_last(file))} is cut to {grouped(size)} bytes" for file, size in start.cut]
    if len(start.deleted) > 2:
        words.append(f"{count(len(start.deleted), 'file')} deleted")
    else:
        words += [f"{safe(_last(path))} is deleted" for path in start.deleted]
    if start.lost:
        words.append(f"offsets {_ranges(start.lost)} go")
    if start.unreachable:
        words.append(f"no consumer reaches {_ranges(start.unreachable)}")
    return words


def _last(file: str) -> str:
    return file.rpartition("/")[2]


def _ranges(ranges: list[tuple[int, int]]) -> str:
    shown = [str(a) if a == b else f"{a}–{b}" for a, b in ranges[:3]]
    more = f" and {len(ranges) - 3} more ranges" if len(ranges) > 3 else ""
    return ", ".join(shown) + more


def next_start_words(following: Next) -> str:
    """Which start comes next in a log directory, and whether the broker comes up."""
    marker = "no .kafka_cleanshutdown: the next start recovers the logs"
    if following.after == CLEAN:
        marker = ".kafka_cleanshutdown is there: the next start is a clean one"
    end = "the broker would start" if following.starts else "the broker would not start"
    if following.becomes is not None:
        end += ", without this log directory"
    retry = ""
    if not following.starts and following.after == CLEAN and following.retry == CRASH:
        retry = "; it deletes the marker, so that the start after that recovers the logs"
    return f"{marker}; {end}{retry}"


def either_start_words(starts: Sequence[Start]) -> str:
    """Whether a broker comes up where it is not known how it stopped."""
    if not starts:
        return "no partition directory was given, so a broker's start was not checked"
    fails = {start.after for start in starts if not start.starts}
    crash, clean = (
        "would not start" if kind in fails else "would start" for kind in (CRASH, CLEAN)
    )
    return f"a broker {crash} after a crash, and {clean} after a clean shutdown"
