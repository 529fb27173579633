"""Text output of `compaction`: the effect of cleaning on a partition and on the records of a
key."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.times import time_text
from kfmt_cli.render.style import Theme, count, grouped, range_words, safe

POLICY = "cleanup.policy"
"""Prefix of a never-cleaned reason that an option can override."""
SKIPPED = "the cleaner skips this partition for now"


def cleaning_lines(row: Fields, theme: Theme) -> Iterator[str]:
    """The effect of cleaning on a partition. row: has the members of `COMPACTION`."""
    name = theme.paint("bold", safe(row.file))
    words = row.never_because
    if words is not None:
        if words.startswith(POLICY):
            words += "; use --cleanup-policy compact to see what cleaning would do"
        yield f"{name}   not cleaned: {safe(words)}\n"
        return
    yield f"{name}   clean up to offset {row.first_dirty_offset}, "
    yield f"dirty up to {row.first_uncleanable_offset}; "
    yield f"beyond that, held back by {row.held_by}\n"
    dirty = row.dirty_bytes
    will = SKIPPED
    if row.picked:
        will = "the cleaner would pick this partition"
    yield (
        f"   {grouped(dirty)} of {grouped(row.clean_bytes + dirty)} bytes are dirty, "
        f"ratio {row.dirty_ratio:.2f}: {will}\n"
    )
    yield (
        f"   a cleaning keeps {count(row.records_kept, 'record')} and removes "
        f"{grouped(row.records_removed)}: {grouped(row.replaced)} superseded or "
        f"deleted, {grouped(row.without_key)} without a key, "
        f"{grouped(row.of_aborted_transactions)} from aborted transactions\n"
    )
    tombstones, markers = row.tombstones_kept, row.markers_kept
    if tombstones or markers:
        when = "the next cleaning sets their delete horizon"
        if row.next_delete_horizon is not None:
            when = f"the first can be removed from {time_text(row.next_delete_horizon)[:19]}"
        yield f"   {count(tombstones, 'tombstone')} and {count(markers, 'marker')} kept; {when}\n"
    before, after = row.segments_before, row.segments_after
    passes = count(row.passes, "pass", "passes") if row.passes else "no cleaning pass"
    yield f"   segments: {grouped(before)} before, {grouped(after)} after; {passes}\n"
    for first, last in row.remaining_offsets or ():
        yield f"   {range_words(first, last)}\n"


def key_lines(row: Fields, theme: Theme, heading: str | None) -> Iterator[str]:
    """A record of a key, and whether cleaning keeps it.

    row: has the members of `KEY_FATE`. heading: the partition.
    """
    if heading is not None:
        yield f"{theme.paint('bold', safe(heading))}\n"
    time = "" if row.timestamp is None else time_text(row.timestamp)[:19]
    what = "tombstone" if row.value_size < 0 else f"{row.value_size} bytes"
    verdict = theme.paint("good", "kept") if row.stays else theme.paint("warn", "removed")
    place = f"{row.offset:>10}  {time}  {what:>12}"
    yield f" {place}  {verdict}: {row.why}   {safe(row.file)}\n"
