"""Text output of `compaction`: the effect of cleaning on a partition and on the records of a
key."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import format_time
from kfmt_cli.render.style import (
    Theme,
    escape_unprintable,
    format_count,
    format_range,
    format_thousands,
)

CLEANUP_POLICY_SETTING = "cleanup.policy"
"""Prefix of a never-cleaned reason that an option can override."""
SKIPPED_REASON = "the cleaner skips this partition for now"


def cleaning_lines(row: FieldDict, theme: Theme) -> Iterator[str]:
    """The effect of cleaning on a partition. row: has the members of `COMPACTION_ROW`."""
    partition_name = theme.paint("bold", escape_unprintable(row.file))
    never_cleaned_reason = row.never_because
    if never_cleaned_reason is not None:
        if never_cleaned_reason.startswith(CLEANUP_POLICY_SETTING):
            never_cleaned_reason += "; use --cleanup-policy compact to see what cleaning would do"
        yield f"{partition_name}   not cleaned: {escape_unprintable(never_cleaned_reason)}\n"
        return
    yield f"{partition_name}   clean up to offset {row.first_dirty_offset}, "
    yield f"dirty up to {row.first_uncleanable_offset}; "
    yield f"beyond that, held back by {row.held_by}\n"
    dirty_bytes = row.dirty_bytes
    outcome = SKIPPED_REASON
    if row.picked:
        outcome = "the cleaner would pick this partition"
    yield (
        f"   {format_thousands(dirty_bytes)} of {format_thousands(row.clean_bytes + dirty_bytes)} "
        f"bytes are dirty, ratio {row.dirty_ratio:.2f}: {outcome}\n"
    )
    yield (
        f"   a cleaning keeps {format_count(row.records_kept, 'record')} and removes "
        f"{format_thousands(row.records_removed)}: {format_thousands(row.replaced)} superseded or "
        f"deleted, {format_thousands(row.without_key)} without a key, "
        f"{format_thousands(row.of_aborted_transactions)} from aborted transactions\n"
    )
    n_tombstones, n_markers = row.tombstones_kept, row.markers_kept
    if n_tombstones or n_markers:
        horizon_text = "the next cleaning sets their delete horizon"
        if row.next_delete_horizon is not None:
            horizon_text = (
                f"the first can be removed from {format_time(row.next_delete_horizon)[:19]}"
            )
        yield (
            f"   {format_count(n_tombstones, 'tombstone')} and "
            f"{format_count(n_markers, 'marker')} kept; {horizon_text}\n"
        )
    n_segments_before, n_segments_after = row.segments_before, row.segments_after
    passes_text = format_count(row.passes, "pass", "passes") if row.passes else "no cleaning pass"
    yield (
        f"   segments: {format_thousands(n_segments_before)} before, "
        f"{format_thousands(n_segments_after)} after; "
        f"{passes_text}\n"
    )
    for first_offset, last_offset in row.remaining_offsets or ():
        yield f"   {format_range(first_offset, last_offset)}\n"


def key_lines(row: FieldDict, theme: Theme, heading: str | None) -> Iterator[str]:
    """A record of a key, and whether cleaning keeps it.

    row: has the members of `KEY_OUTCOME_ROW`. heading: the partition's name, above its first
    record.
    """
    if heading is not None:
        yield f"{theme.paint('bold', escape_unprintable(heading))}\n"
    time_label = "" if row.timestamp is None else format_time(row.timestamp)[:19]
    value_label = "tombstone" if row.value_size < 0 else f"{row.value_size} bytes"
    verdict = theme.paint("good", "kept") if row.stays else theme.paint("warn", "removed")
    columns_text = f"{row.offset:>10}  {time_label}  {value_label:>12}"
    yield f" {columns_text}  {verdict}: {row.why}   {escape_unprintable(row.file)}\n"
