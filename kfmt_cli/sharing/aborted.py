"""What read_committed needs to know of a partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AbortedRanges:
    """What read_committed needs to know of a partition."""

    aborted: tuple[tuple[int, int, int], ...] = ()
    """(producer, first, last offset)."""
    stable: int | None = None
    """The first offset of an open transaction."""
