"""Text output of `replay`: a line for each partition and each offset of a group."""

from __future__ import annotations

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.render.style import Theme, escape_terminal, format_bytes, format_count, format_grouped


def format_partition_line(name: str, row: FieldDict, theme: Theme) -> str:
    """The line for a partition. name: topic and partition on the disks. row: the members of its
    `REPLAYED_ROW`."""
    target = row.target_topic
    if row.target_partition is not None:
        target = f"{target}-{row.target_partition}"
    text = f"{format_count(row.records, 'record')}, {format_bytes(row.bytes)}"
    if row.dry_run:
        text += " to be sent"
    if row.first_offset is not None:
        text += f", offsets {row.first_offset}–{row.last_offset}"
    if row.target_first_offset is not None:
        text += f" as {row.target_first_offset}–{row.target_last_offset}"
    details = [
        (row.resumed_at, f"continued at offset {row.resumed_at}"),
        (row.already_there, f"{format_grouped(row.already_there)} had already arrived"),
        (row.not_committed, f"{format_grouped(row.not_committed)} not committed, not sent"),
        (
            row.timestamps_changed,
            f"{format_grouped(row.timestamps_changed)} sent with timestamp 1 instead of 0",
        ),
    ]
    detail_text = "".join(f"; {detail}" for is_shown, detail in details if is_shown)
    return (
        f"{theme.paint('bold', escape_terminal(name))} → {escape_terminal(target)}: "
        f"{text}{detail_text}\n"
    )


def format_group_line(row: FieldDict, theme: Theme) -> str:
    """The line for an offset of a group. row: the members of its `REPLAYED_GROUP_ROW`."""
    source_text = f"{row.topic}-{row.partition}: offset {row.offset}"
    target = "unknown" if row.target_offset is None else str(row.target_offset)
    text = escape_terminal(f"{source_text} → {target}")
    if row.reason is not None:
        text += theme.paint("warn", escape_terminal(f"  not committed: {row.reason}"))
    return f"group {escape_terminal(row.group)}  {text}\n"
