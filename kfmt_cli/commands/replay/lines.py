"""Text output of `replay`: a line for each partition and each offset of a group."""

from __future__ import annotations

from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.render.style import Theme, count, grouped, human, safe


def replayed_line(name: str, row: Fields, theme: Theme) -> str:
    """A partition that was sent. name: the partition on the disks. row: its document."""
    target = row.target_topic
    if row.target_partition is not None:
        target = f"{target}-{row.target_partition}"
    words = f"{count(row.records, 'record')}, {human(row.bytes)}"
    if row.dry_run:
        words += " to be sent"
    if row.first_offset is not None:
        words += f", offsets {row.first_offset}–{row.last_offset}"
    if row.target_first_offset is not None:
        words += f" as {row.target_first_offset}–{row.target_last_offset}"
    details = [
        (row.resumed_at, f"continued at offset {row.resumed_at}"),
        (row.already_there, f"{grouped(row.already_there)} had already arrived"),
        (row.not_committed, f"{grouped(row.not_committed)} not committed, not sent"),
        (
            row.timestamps_changed,
            f"{grouped(row.timestamps_changed)} sent with timestamp 1 instead of 0",
        ),
    ]
    more = "".join(f"; {detail}" for said, detail in details if said)
    return f"{theme.paint('bold', safe(name))} → {safe(target)}: {words}{more}\n"


def group_line(row: Fields, theme: Theme) -> str:
    """An offset of a group."""
    place = f"{row.topic}-{row.partition}: offset {row.offset}"
    target = "unknown" if row.target_offset is None else str(row.target_offset)
    words = f"{place} → {target}"
    if row.reason is not None:
        words += theme.paint("warn", f"  not committed: {row.reason}")
    return f"group {safe(row.group)}  {safe(words) if row.reason is None else words}\n"
