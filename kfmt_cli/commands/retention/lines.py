"""Text output of `retention`: the outcome for each segment, the next roll, the bytes freed over
time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfmt_cli.broker.retention_rules import SegmentRetention
from kfmt_cli.broker.segment_roll import SegmentRoll
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import YEAR_10000_MS, format_interval_end, format_time
from kfmt_cli.render.plot import retention_plot_lines
from kfmt_cli.render.style import Theme, escape_unprintable, format_thousands

FreedBytes = list[tuple[int, int]]
"""Pairs of a time in milliseconds and a number of bytes."""


def format_heading(
    partition_name: str, settings: Mapping[str, Mapping[str, object]], theme: Theme
) -> str:
    """A partition and the settings that decide about its retention, each with its source."""
    setting_texts = [
        f"{setting_name}={setting['value']} ({setting['source']})"
        for setting_name, setting in settings.items()
    ]
    return (
        f"{theme.paint('bold', escape_unprintable(partition_name))}   "
        f"{escape_unprintable(' '.join(setting_texts))}\n"
    )


def format_segment_retention(
    segment_retention: SegmentRetention, size_width: int, theme: Theme
) -> str:
    """Whether a segment is kept or deletable, and why. size_width: columns for its size."""
    if segment_retention.deletable:
        verdict = theme.paint("warn", "deletable now")
    elif segment_retention.deletable_at is not None:
        late_note = ", unusually late" if segment_retention.odd else ""
        verdict = f"kept until {format_interval_end(segment_retention.deletable_at)}{late_note}"
    else:
        verdict = theme.paint("good", "kept")
    active_label = " active" if segment_retention.active else ""
    file_name = segment_retention.segment.name.rpartition("/")[2]
    verdict_and_reason = f"{verdict}: {segment_retention.why}"
    return (
        f" {escape_unprintable(file_name)}{active_label}  "
        f"{format_thousands(segment_retention.segment.size):>{size_width}} bytes  "
        f"{verdict_and_reason}\n"
    )


def format_roll(roll: SegmentRoll) -> str:
    """When the broker rolls the active segment."""
    time_condition = ""
    if roll.at_time is not None and roll.at_time < YEAR_10000_MS:
        time_condition = f", or at a record newer than {format_time(roll.at_time)[:19]}"
    return (
        f"   rolls {roll.description} (or at {format_thousands(roll.at_bytes)} "
        f"bytes{time_condition})\n"
    )


def freed_lines(row: FieldDict, later_freed_bytes: FreedBytes, width: int | None) -> Iterator[str]:
    """The bytes deletable now, later, and only at unusually late times. row: has the members of
    `FREED_ROW`."""
    yield (
        f"{format_thousands(row.bytes_now)} bytes deletable now, "
        f"{format_thousands(row.bytes_later)} later\n"
    )
    yield from retention_plot_lines(later_freed_bytes, width)
    if row.bytes_odd:
        reason = "kept much longer because of timestamps in the future"
        yield f"   {format_thousands(row.bytes_odd)} bytes {reason}\n"
