"""Text output of `retention`: the fate of each segment, the next roll, the bytes freed over
time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfmt_cli.broker.retention_rules import Roll, SegmentFate
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.times import YEAR_10000, time_text, until_words
from kfmt_cli.render.plot import steps
from kfmt_cli.render.style import Theme, grouped, safe

Freed = list[tuple[int, int]]
"""Pairs of a time in milliseconds and a number of bytes."""


def heading(partition: str, settings: Mapping[str, Mapping[str, object]], theme: Theme) -> str:
    """A partition and the settings that decide, each with its source."""
    words = [f"{name}={told['value']} ({told['source']})" for name, told in settings.items()]
    return f"{theme.paint('bold', safe(partition))}   {safe(' '.join(words))}\n"


def fate_line(fate: SegmentFate, width: int, theme: Theme) -> str:
    """A segment's fate. width: columns for its size."""
    if fate.deletable:
        verdict = theme.paint("warn", "deletable now")
    elif fate.at is not None:
        verdict = f"kept until {until_words(fate.at)}{', unusually late' if fate.odd else ''}"
    else:
        verdict = theme.paint("good", "kept")
    marks = " active" if fate.active else ""
    name = fate.segment.name.rpartition("/")[2]
    words = f"{verdict}: {fate.why}"
    return f" {safe(name)}{marks}  {grouped(fate.segment.size):>{width}} bytes  {words}\n"


def roll_line(roll: Roll) -> str:
    """When the broker rolls the active segment."""
    when = ""
    if roll.at_time is not None and roll.at_time < YEAR_10000:
        when = f", or at a record newer than {time_text(roll.at_time)[:19]}"
    return f"   rolls {roll.words} (or at {grouped(roll.at_bytes)} bytes{when})\n"


def freed_lines(row: Fields, later: Freed, width: int | None) -> Iterator[str]:
    """The bytes deletable now, over time, and only at odd times. row: has the members of
    `FREED`."""
    yield f"{grouped(row.bytes_now)} bytes deletable now, {grouped(row.bytes_later)} later\n"
    yield from steps(later, width)
    if row.bytes_odd:
        said = "kept much longer because of timestamps in the future"
        yield f"   {grouped(row.bytes_odd)} bytes {said}\n"
