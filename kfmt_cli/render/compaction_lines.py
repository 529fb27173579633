"""What `compaction` says: what a cleaning would do with a partition, and with the records of a
key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.core.times import time_text
from kfmt_cli.render.style import Theme, count, grouped, safe

POLICY = "cleanup.policy"
"""How the reason begins by which a topic is never cleaned, where options may say otherwise."""


def cleaning_lines(row: Mapping[str, Any], theme: Theme) -> Iterator[str]:
    """What the cleaner does with a partition. row: of `COMPACTION`."""
    name = theme.paint("bold", safe(row["file"]))
    words = row["never_because"]
    if words is not None:
        if words.startswith(POLICY):
            words += "; --cleanup-policy compact shows what it would do"
        yield f"{name}   not cleaned: {words}\n"
        return
    yield f"{name}   clean up to offset {row['first_dirty_offset']}, "
    yield f"dirty up to {row['first_uncleanable_offset']}: {row['held_by']} holds what follows\n"
    dirty = row["dirty_bytes"]
    will = "the broker would pick it" if row["picked"] else "the broker leaves it alone for now"
    yield (
        f"   {grouped(dirty)} of {grouped(row['clean_bytes'] + dirty)} bytes are dirty, "
        f"ratio {row['dirty_ratio']:.2f}: {will}\n"
    )
    yield (
        f"   a cleaning keeps {count(row['records_kept'], 'record')} and removes "
        f"{grouped(row['records_removed'])}: {grouped(row['replaced'])} replaced or "
        f"deleted, {grouped(row['without_key'])} without a key, "
        f"{grouped(row['of_aborted_transactions'])} of aborted transactions\n"
    )
    tombstones, markers = row["tombstones_kept"], row["markers_kept"]
    if tombstones or markers:
        when = "a delete horizon is set by the next cleaning"
        if row["next_delete_horizon"] is not None:
            when = f"the first may go at {time_text(row['next_delete_horizon'])[:19]}"
        yield f"   {count(tombstones, 'tombstone')} and {count(markers, 'marker')} stay; {when}\n"
    before, after = row["segments_before"], row["segments_after"]
    verb = f"{'stays' if before == 1 else 'stay'} {after}"
    if before != after:
        verb = f"{'becomes' if before == 1 else 'become'} {after}"
    passes = f"in {count(row['passes'], 'pass', 'passes')}" if row["passes"] else "without a pass"
    yield f"   {count(before, 'segment')} {verb}, {passes}\n"
    for first, last in row["remaining_offsets"] or ():
        yield f"   {first}\n" if first == last else f"   {first}–{last}\n"


def key_lines(row: Mapping[str, Any], theme: Theme, heading: str | None) -> Iterator[str]:
    """A record of a key, and whether it stays. row: of `KEY_FATE`; heading: the partition."""
    if heading is not None:
        yield f"{theme.paint('bold', safe(heading))}\n"
    time = "" if row["timestamp"] is None else time_text(row["timestamp"])[:19]
    what = "tombstone" if row["value_size"] < 0 else f"{row['value_size']} bytes"
    verdict = theme.paint("good", "stays") if row["stays"] else theme.paint("warn", "goes")
    place = f"{row['offset']:>10}  {time}  {what:>12}"
    yield f" {place}  {verdict}: {row['why']}   {safe(row['file'])}\n"
