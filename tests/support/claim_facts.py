"""What can be said of a broker on a damaged partition: words, and when an observation proves them.

A claim names a code, a damaged partition, and for each kind of start the facts that must be seen.
The words of a fact stand in the code's sentence for that start, and each clause of the sentence has
the words of some fact, so that no sentence says what was not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.support.broken_partitions import Broken, name
from tools.observe import COMMITTED, Became, Files, Outcome

SEEKS = (0, 245, 337, 345, 365, 475, 500, 1450)
"""Offsets of orders-0 that a read is begun at."""


@dataclass(frozen=True)
class Seen:
    """A damaged partition after a start."""

    broken: Broken
    outcome: Outcome
    whole: Became
    """The undamaged one after the same start."""
    recovered: Files
    """Its files after a recovery."""
    _became: Became | None

    @property
    def became(self) -> Became:
        """What became of the damaged one; only of a broker that came up."""
        assert self._became is not None, self.outcome.errors
        return self._became

    def seek(self, offset: int) -> int | None:
        """The first offset that a read from an offset is given; None where there is none."""
        offsets = self.became.seeks[SEEKS.index(offset)].offsets
        return offsets[0] if offsets else None

    def lost(self) -> set[int]:
        """The offsets that a consumer is given of the undamaged partition only."""
        return set(self.whole.read.offsets) - set(self.became.read.offsets)

    def left(self, suffix: str, base: int | None = None) -> bytes | None:
        """A file of the damaged segment, as the broker left it."""
        return self.became.files.get(name(self.broken.base if base is None else base, suffix))


@dataclass(frozen=True)
class Fact:
    """Words of a sentence, and when they are true."""

    words: str
    holds: Callable[[Seen], bool]


@dataclass(frozen=True)
class Claim:
    """Facts about a damaged partition, by the start that shows them."""

    code: str
    what: str
    broken: Callable[[], Broken]
    crash: tuple[Fact, ...]
    clean: tuple[Fact, ...]
    at_end: tuple[Fact, ...] = ()
    """After a crash with the recovery point at the log end, told in the advice."""
    advice: tuple[Fact, ...] = ()
    """Those of a clean start that the advice tells."""
    beside: Files = field(default_factory=dict)
    """As in tools.observe.Plan."""
    instead: Files = field(default_factory=dict)
    """As in tools.observe.Plan."""
    settings: Mapping[str, str] = field(default_factory=dict)
    checked: bool = True
    """Whether kfmt finds the code in the partition's own files."""


def _cut(seen: Seen) -> bool:
    its = seen.became
    return its.logs[seen.broken.log] == seen.broken.position and its.log_end == seen.broken.offset


def _later_deleted(seen: Seen) -> bool:
    later = {text for text in seen.became.logs_before if text > seen.broken.log}
    return bool(later) and not later & set(seen.became.logs)


def _kept(seen: Seen) -> bool:
    given, left = seen.broken.files, seen.became.files
    logs = [text for text in given if text.endswith(".log")]
    return all(left.get(log) == given[log] for log in logs) and (
        seen.became.log_end == seen.whole.log_end
    )


def _stops(seen: Seen, first: int, last: int) -> bool:
    """The read ended with an error at one of these offsets; it was given all before that."""
    read = seen.became.read
    before = [offset for offset in seen.whole.read.offsets if offset < read.position]
    return bool(read.error) and first <= read.position <= last and read.offsets == before


def lost(words: str, first: int, last: int) -> Fact:
    """These offsets are missing in a read that has no error."""
    return Fact(
        words,
        lambda s: s.became.read.error is None and s.lost() == set(range(first, last + 1)),
    )


def _lookups(seen: Seen, later: bool) -> bool:
    """Lookups by timestamp find nothing (later) in the segments after the damaged one."""
    behind = [
        found
        for found, right in zip(seen.became.times, seen.whole.times, strict=True)
        if isinstance(right, int) and right >= seen.broken.base + 240
    ]
    return bool(behind) and (set(behind) == {None}) is later


PASSED = "silently skipped"
DOWN = Fact("does not start", lambda s: not s.outcome.up)
CUT = Fact("truncates the log at this byte", _cut)
LATER = Fact("deletes all later segments", _later_deleted)
KEPT = Fact("leaves the log unchanged", _kept)
STOP = Fact("get an error at this batch", lambda s: _stops(s, s.broken.offset, s.broken.offset))
STOP_AT_ZEROS = Fact("get an error at the zeros", STOP.holds)
STOP_INSIDE = Fact(
    "get an error inside this batch",
    lambda s: _stops(s, s.broken.offset + 1, s.broken.offset + 20),
)
FETCH = Fact(
    "every fetch that includes this batch fails as a whole",
    lambda s: s.broken.offset > s.broken.base and _stops(s, s.broken.base, s.broken.base),
)
ALL = Fact(
    "every record is delivered",
    lambda s: s.became.read.error is None and s.became.read.offsets == s.whole.read.offsets,
)
STARTS = Fact("the broker starts", lambda s: s.outcome.up)
ENDS_AT_BASE = Fact(
    "the log end offset is then the segment's base offset",
    lambda s: s.became.log_end == s.broken.base,
)
NOTHING_LEFT = Fact(
    "deletes every segment of the partition",
    lambda s: not set(s.became.logs_before) & set(s.became.logs),
)
ENDS_EARLY = Fact("the log end offset is set too low", lambda s: s.became.log_end < s.whole.log_end)
SPLIT = Fact(
    "moves the batch into a segment of its own",
    lambda s: len(s.became.logs) == len(s.broken.files_of(".log")) + 1,
)
SEEK_BATCH = Fact("seek to the next batch and continue", lambda s: s.seek(365) == 365)
SEEK_SEGMENT = Fact("seek to the next segment and continue", lambda s: s.seek(500) == 500)
ONLY_BATCH = Fact(
    "removes only the incomplete batch", lambda s: s.became.log_end == s.broken.offset
)
ONLY_ZEROS = Fact(
    "removes only the zeros",
    lambda s: s.became.log_end == s.whole.log_end and _cut(s),
)

SEEKS_RIGHT = Fact(
    "no seek missed a record",
    lambda s: [seek.offsets[:1] for seek in s.became.seeks] == [[seek] for seek in SEEKS],
)
SEEKS_MISS = Fact(
    "seeks silently skip records",
    lambda s: any(
        not read.error and read.offsets[:1] > [at]
        for at, read in zip(SEEKS, s.became.seeks, strict=True)
    ),
)
NO_ERROR = Fact(
    "no read failed",
    lambda s: not any(reading.error for reading in [s.became.read, *s.became.seeks]),
)
LOOKUPS_RIGHT = Fact("no lookup by timestamp failed", lambda s: s.became.times == s.whole.times)
LOOKUPS_LATER = Fact(
    "lookups by timestamp find nothing in any later segment", lambda s: _lookups(s, later=True)
)
LOOKUPS_HERE_RIGHT = Fact(
    "lookups within this segment are correct",
    lambda s: s.became.times[2:4] == s.whole.times[2:4],
)
LOOKUPS_SKIP = Fact(
    "lookups by timestamp skip to the next segment",
    lambda s: s.broken.base + 240 in s.became.times and _lookups(s, later=False),
)
LOOKUPS_LAST = Fact(
    "lookups by timestamp in it find nothing",
    lambda s: s.became.times[-2:] == [None, None] != s.whole.times[-2:],
)
RETENTION = Fact(
    "time-based retention deletes the segment",
    lambda s: s.became.log_start > 0 or name(0) not in s.became.files,
)
SNAPSHOT_ANEW = Fact(
    "rewrites the newest snapshot",
    lambda s: s.became.files[name(736, ".snapshot")] == s.whole.files[name(736, ".snapshot")],
)
OLD_SNAPSHOT_KEPT = Fact(
    "an older snapshot is malformed, the broker does not read it",
    lambda s: s.became.files[name(357, ".snapshot")] == s.broken.files[name(357, ".snapshot")],
)


def rebuilt(suffix: str) -> Fact:
    """The index is that which the broker makes of the undamaged log."""
    return Fact(
        "rebuilds",
        lambda s: (
            s.left(suffix) != s.broken.files.get(name(s.broken.base, suffix))
            and s.left(suffix) == s.recovered[name(s.broken.base, suffix)]
        ),
    )


def anew(suffix: str) -> Fact:
    """The index is another one than before; the log is not that of the sample."""
    return Fact(
        "rebuilds",
        lambda s: s.left(suffix) not in (None, b"", s.broken.files[name(s.broken.base, suffix)]),
    )


def taken(suffix: str) -> Fact:
    """The index is as it was."""
    return Fact(
        "uses the index as is",
        lambda s: s.left(suffix) == s.broken.files[name(s.broken.base, suffix)],
    )


def trimmed(suffix: str) -> Fact:
    """What is after the last entry is gone."""
    return Fact(
        "discards the bytes after the last entry",
        lambda s: s.left(suffix) == s.whole.files[name(s.broken.base, suffix)],
    )


def gone(file: str) -> Fact:
    """A file is no longer there."""
    return Fact("deletes", lambda s: file in s.broken.files and file not in s.became.files)


def empty(suffix: str) -> Fact:
    """The broker leaves an empty index."""
    return Fact("leaves it empty", lambda s: s.left(suffix) == b"")


def _given(seen: Seen) -> set[int]:
    """Offsets that a read_committed consumer of the damaged partition is given in addition."""
    read, whole = seen.became.reads[COMMITTED], seen.whole.reads[COMMITTED]
    assert read.error is None
    return set(read.offsets) - set(whole.offsets)


ABORTED_GIVEN = Fact("read_committed consumers receive aborted records", lambda s: bool(_given(s)))
COMMITTED_RIGHT = Fact(
    "no read_committed consumer received a wrong record",
    lambda s: s.became.reads[COMMITTED] == s.whole.reads[COMMITTED],
)
COMMITTED_STOPS = Fact(
    "read_committed consumers get an error at this batch",
    lambda s: (
        bool(s.became.reads[COMMITTED].error)
        and s.became.reads[COMMITTED].position == s.broken.offset
    ),
)


def replaced(file: str) -> Fact:
    """The .swap file took the place of another."""
    return Fact(
        "replaces the file of the same name",
        lambda s: (
            s.became.files[file] == s.broken.files[file + ".swap"]
            and file + ".swap" not in s.became.files
        ),
    )
