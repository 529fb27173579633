"""Text output of `replay`: a line for each partition and each offset of a group."""

from __future__ import annotations

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.render.style import (
    Theme,
    escape_unprintable,
    format_bytes,
    format_count,
    format_thousands,
)


def format_partition_line(source_name: str, row: FieldDict, theme: Theme) -> str:
    """The line for a partition. source_name: topic and partition on the disks. row: the members of
    its `REPLAYED_ROW`."""
    target_name = row.target_topic
    if row.target_partition is not None:
        target_name = f"{target_name}-{row.target_partition}"
    progress_text = f"{format_count(row.records, 'record')}, {format_bytes(row.bytes)}"
    if row.dry_run:
        progress_text += " to be sent"
    if row.first_offset is not None:
        progress_text += f", offsets {row.first_offset}–{row.last_offset}"
    if row.target_first_offset is not None:
        progress_text += f" as {row.target_first_offset}–{row.target_last_offset}"
    conditional_details = [
        (row.resumed_at, f"continued at offset {row.resumed_at}"),
        (row.already_there, f"{format_thousands(row.already_there)} had already arrived"),
        (row.not_committed, f"{format_thousands(row.not_committed)} not committed, not sent"),
        (
            row.timestamps_changed,
            f"{format_thousands(row.timestamps_changed)} sent with timestamp 1 instead of 0",
        ),
    ]
    detail_text = "".join(f"; {detail}" for is_shown, detail in conditional_details if is_shown)
    return (
        f"{theme.paint('bold', escape_unprintable(source_name))} → "
        f"{escape_unprintable(target_name)}: "
        f"{progress_text}{detail_text}\n"
    )


def format_group_line(row: FieldDict, theme: Theme) -> str:
    """The line for an offset of a group. row: the members of its `REPLAYED_GROUP_ROW`."""
    source_text = f"{row.topic}-{row.partition}: offset {row.offset}"
    target_text = "unknown" if row.target_offset is None else str(row.target_offset)
    offsets_text = escape_unprintable(f"{source_text} → {target_text}")
    if row.reason is not None:
        offsets_text += theme.paint("warn", escape_unprintable(f"  not committed: {row.reason}"))
    return f"group {escape_unprintable(row.group)}  {offsets_text}\n"
