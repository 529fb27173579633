"""Facts about a broker on a damaged partition: a text, and when an observation proves it.

A claim names a finding code, a damaged partition, and for each kind of start the facts that must be
observed. The text of a fact is part of the code's sentence for that start, and each clause of the
sentence has the text of some fact, so that no sentence says what was not observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.support.broken_partitions import DamagedPartition, name
from tools.observe import COMMITTED, Became, Files, Outcome

SEEKS = (0, 245, 337, 345, 365, 475, 500, 1450)
"""Offsets of orders-0 at which a consumer starts to read."""


@dataclass(frozen=True)
class Observation:
    """A damaged partition after a start of a broker."""

    broken: DamagedPartition
    outcome: Outcome
    undamaged: Became
    """The undamaged partition after the same start."""
    recovered: Files
    """The undamaged partition's files after a recovery."""
    _became: Became | None

    @property
    def became(self) -> Became:
        """The damaged partition after the start; fails if the broker did not come up."""
        assert self._became is not None, self.outcome.errors
        return self._became

    def seek(self, offset: int) -> int | None:
        """The first offset that a read from an offset returns; None if there is none."""
        offsets = self.became.seeks[SEEKS.index(offset)].offsets
        return offsets[0] if offsets else None

    def lost_offsets(self) -> set[int]:
        """The offsets that a consumer receives from the undamaged partition only."""
        return set(self.undamaged.read.offsets) - set(self.became.read.offsets)

    def file_after(self, suffix: str, base: int | None = None) -> bytes | None:
        """A file of the damaged segment after the start."""
        return self.became.files.get(name(self.broken.base if base is None else base, suffix))


@dataclass(frozen=True)
class Fact:
    """A clause of a sentence, and when it is true."""

    text: str
    holds: Callable[[Observation], bool]


@dataclass(frozen=True)
class Claim:
    """Facts about a damaged partition, by the start that shows them."""

    code: str
    description: str
    broken: Callable[[], DamagedPartition]
    crash: tuple[Fact, ...]
    clean: tuple[Fact, ...]
    at_end: tuple[Fact, ...] = ()
    """After a crash with the recovery point at the log end; the advice states them."""
    advice: tuple[Fact, ...] = ()
    """Those of a clean start that the advice states."""
    beside: Files = field(default_factory=dict)
    """As in tools.observe.Plan."""
    instead: Files = field(default_factory=dict)
    """As in tools.observe.Plan."""
    settings: Mapping[str, str] = field(default_factory=dict)
    checked: bool = True
    """Whether kfmt finds the code in the partition's own files."""


def _is_truncated(observation: Observation) -> bool:
    became = observation.became
    return (
        became.logs[observation.broken.log] == observation.broken.position
        and became.log_end == observation.broken.offset
    )


def _are_later_deleted(observation: Observation) -> bool:
    later_logs = {log for log in observation.became.logs_before if log > observation.broken.log}
    return bool(later_logs) and not later_logs & set(observation.became.logs)


def _is_unchanged(observation: Observation) -> bool:
    files_before, files_after = observation.broken.files, observation.became.files
    logs = [file for file in files_before if file.endswith(".log")]
    return all(files_after.get(log) == files_before[log] for log in logs) and (
        observation.became.log_end == observation.undamaged.log_end
    )


def _read_stops(observation: Observation, first: int, last: int) -> bool:
    """The read ended with an error at one of these offsets, after all earlier records."""
    read = observation.became.read
    expected_offsets = [
        offset for offset in observation.undamaged.read.offsets if offset < read.position
    ]
    return bool(read.error) and first <= read.position <= last and read.offsets == expected_offsets


def offsets_lost(text: str, first_offset: int, last_offset: int) -> Fact:
    """A fact: these offsets are missing in a read without an error."""
    return Fact(
        text,
        lambda s: (
            s.became.read.error is None
            and s.lost_offsets() == set(range(first_offset, last_offset + 1))
        ),
    )


def _do_lookups_miss(observation: Observation, is_missed: bool) -> bool:
    """Whether lookups by timestamp find nothing in the segments after the damaged one."""
    results = [
        result
        for result, expected in zip(
            observation.became.times, observation.undamaged.times, strict=True
        )
        if isinstance(expected, int) and expected >= observation.broken.base + 240
    ]
    return bool(results) and (set(results) == {None}) is is_missed


SKIPPED = "silently skipped"
DOWN = Fact("does not start", lambda s: not s.outcome.up)
TRUNCATES = Fact("truncates the log at this byte", _is_truncated)
LATER_DELETED = Fact("deletes all later segments", _are_later_deleted)
UNCHANGED = Fact("leaves the log unchanged", _is_unchanged)
READ_STOPS = Fact(
    "get an error at this batch", lambda s: _read_stops(s, s.broken.offset, s.broken.offset)
)
READ_STOPS_AT_ZEROS = Fact("get an error at the zeros", READ_STOPS.holds)
READ_STOPS_INSIDE = Fact(
    "get an error inside this batch",
    lambda s: _read_stops(s, s.broken.offset + 1, s.broken.offset + 20),
)
FETCH_FAILS = Fact(
    "every fetch that includes this batch fails as a whole",
    lambda s: s.broken.offset > s.broken.base and _read_stops(s, s.broken.base, s.broken.base),
)
ALL_DELIVERED = Fact(
    "every record is delivered",
    lambda s: s.became.read.error is None and s.became.read.offsets == s.undamaged.read.offsets,
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
ENDS_EARLY = Fact(
    "the log end offset is set too low", lambda s: s.became.log_end < s.undamaged.log_end
)
SPLIT = Fact(
    "moves the batch into a segment of its own",
    lambda s: len(s.became.logs) == len(s.broken.names_with_suffix(".log")) + 1,
)
SEEK_BATCH = Fact("seek to the next batch and continue", lambda s: s.seek(365) == 365)
SEEK_SEGMENT = Fact("seek to the next segment and continue", lambda s: s.seek(500) == 500)
ONLY_BATCH = Fact(
    "removes only the incomplete batch", lambda s: s.became.log_end == s.broken.offset
)
ONLY_ZEROS = Fact(
    "removes only the zeros",
    lambda s: s.became.log_end == s.undamaged.log_end and _is_truncated(s),
)

SEEKS_RIGHT = Fact(
    "no seek missed a record",
    lambda s: [seek.offsets[:1] for seek in s.became.seeks] == [[seek] for seek in SEEKS],
)
SEEKS_MISS = Fact(
    "seeks silently skip records",
    lambda s: any(
        not read.error and read.offsets[:1] > [offset]
        for offset, read in zip(SEEKS, s.became.seeks, strict=True)
    ),
)
NO_ERROR = Fact(
    "no read failed",
    lambda s: not any(read.error for read in [s.became.read, *s.became.seeks]),
)
LOOKUPS_RIGHT = Fact("no lookup by timestamp failed", lambda s: s.became.times == s.undamaged.times)
LOOKUPS_LATER = Fact(
    "lookups by timestamp find nothing in any later segment",
    lambda s: _do_lookups_miss(s, is_missed=True),
)
LOOKUPS_IN_SEGMENT_RIGHT = Fact(
    "lookups within this segment are correct",
    lambda s: s.became.times[2:4] == s.undamaged.times[2:4],
)
LOOKUPS_SKIP = Fact(
    "lookups by timestamp skip to the next segment",
    lambda s: s.broken.base + 240 in s.became.times and _do_lookups_miss(s, is_missed=False),
)
LOOKUPS_LAST = Fact(
    "lookups by timestamp in it find nothing",
    lambda s: s.became.times[-2:] == [None, None] != s.undamaged.times[-2:],
)
RETENTION = Fact(
    "time-based retention deletes the segment",
    lambda s: s.became.log_start > 0 or name(0) not in s.became.files,
)
SNAPSHOT_REWRITTEN = Fact(
    "rewrites the newest snapshot",
    lambda s: s.became.files[name(736, ".snapshot")] == s.undamaged.files[name(736, ".snapshot")],
)
OLD_SNAPSHOT_UNCHANGED = Fact(
    "an older snapshot is malformed, the broker does not read it",
    lambda s: s.became.files[name(357, ".snapshot")] == s.broken.files[name(357, ".snapshot")],
)


def rebuilt(suffix: str) -> Fact:
    """A fact: the index is the one that the broker rebuilds from the undamaged log."""
    return Fact(
        "rebuilds",
        lambda s: (
            s.file_after(suffix) != s.broken.files.get(name(s.broken.base, suffix))
            and s.file_after(suffix) == s.recovered[name(s.broken.base, suffix)]
        ),
    )


def rewritten(suffix: str) -> Fact:
    """A fact: the index differs from the one before; the log is not the sample's."""
    return Fact(
        "rebuilds",
        lambda s: (
            s.file_after(suffix) not in (None, b"", s.broken.files[name(s.broken.base, suffix)])
        ),
    )


def used_as_is(suffix: str) -> Fact:
    """A fact: the index is unchanged."""
    return Fact(
        "uses the index as is",
        lambda s: s.file_after(suffix) == s.broken.files[name(s.broken.base, suffix)],
    )


def trimmed(suffix: str) -> Fact:
    """A fact: the bytes after the last entry are removed."""
    return Fact(
        "discards the bytes after the last entry",
        lambda s: s.file_after(suffix) == s.undamaged.files[name(s.broken.base, suffix)],
    )


def deleted(file: str) -> Fact:
    """A fact: a file is deleted."""
    return Fact("deletes", lambda s: file in s.broken.files and file not in s.became.files)


def empty(suffix: str) -> Fact:
    """A fact: the broker leaves an empty index."""
    return Fact("leaves it empty", lambda s: s.file_after(suffix) == b"")


def _extra_offsets(observation: Observation) -> set[int]:
    """Offsets that only a read_committed consumer of the damaged partition receives."""
    read, undamaged = observation.became.reads[COMMITTED], observation.undamaged.reads[COMMITTED]
    assert read.error is None
    return set(read.offsets) - set(undamaged.offsets)


ABORTED_DELIVERED = Fact(
    "read_committed consumers receive aborted records", lambda s: bool(_extra_offsets(s))
)
COMMITTED_RIGHT = Fact(
    "no read_committed consumer received a wrong record",
    lambda s: s.became.reads[COMMITTED] == s.undamaged.reads[COMMITTED],
)
COMMITTED_STOPS = Fact(
    "read_committed consumers get an error at this batch",
    lambda s: (
        bool(s.became.reads[COMMITTED].error)
        and s.became.reads[COMMITTED].position == s.broken.offset
    ),
)


def replaced(file: str) -> Fact:
    """A fact: the .swap file replaced the file of the same name."""
    return Fact(
        "replaces the file of the same name",
        lambda s: (
            s.became.files[file] == s.broken.files[file + ".swap"]
            and file + ".swap" not in s.became.files
        ),
    )
