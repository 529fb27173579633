"""retention: why each segment is still on disk, and when it will be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.retention_rules import (
    FILE_TIME,
    TIME_INDEX,
    ActiveFacts,
    HeldBack,
    Roll,
    SegmentFate,
    SegmentTimes,
    retained,
    rolled,
)
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.own_files import HIGH_WATERMARKS, LOG_STARTS
from kfmt_cli.broker.start.stored import CorruptError, LogBytes, StartFailed, batches
from kfmt_cli.broker.topic_settings import TopicSettings
from kfmt_cli.commands.each_partition import each_partition
from kfmt_cli.commands.log_settings import SettingsOf, with_sources
from kfmt_cli.commands.retention.lines import Freed, fate_line, freed_lines, heading, roll_line
from kfmt_cli.commands.retention.remote_end import UNKNOWN, remote_end
from kfmt_cli.commands.run import Run
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.source import FileSource, Source
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX
from kfmt_cli.disk.kinds.fixed import TIME_INDEX as TIMES
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.names import mark_of
from kfmt_cli.disk.opening import descriptor, opened_elsewhere
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.targets import GivenPath
from kfmt_cli.disk.tree import is_segment, listing, modified_ms, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.formats.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.log.open_log import open_log
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.documents import FREED, RETENTION, ROLL, row_of
from kfmt_cli.topics import CLUSTER_METADATA

_ENTRY = TIME_INDEX_ENTRY.dtype.itemsize
_OFFSETS = OFFSET_INDEX_ENTRY.dtype.itemsize


@dataclass(slots=True)
class Retention:
    """One call of `retention`."""

    run: Run
    settings: SettingsOf
    now: int
    """Current time in milliseconds."""
    tells_skipped: bool = True
    """Note the partitions that retention.ms does not apply to."""
    _freed: Freed = field(default_factory=list)
    _odd: int = 0

    def paths(self, paths: Sequence[GivenPath | str]) -> None:
        """Show when retention deletes the segments under some paths."""
        each_partition(self.run, paths, self._partition)
        sink = self.run.sink
        later = [(at, size) for at, size in self._freed if at > self.now]
        row = Fields(
            bytes_now=sum(size for at, size in self._freed if at <= self.now),
            bytes_later=sum(size for _, size in later),
            bytes_odd=self._odd,
        )
        sink.document(FREED, row, freed_lines(row, later, sink.out.width))

    def _partition(self, partition: Partition) -> None:
        sink = self.run.sink
        for log in partition.logs if partition.given else ():
            if log.kind is not LOG:
                with open_log(log, read_ahead=False):
                    pass  # raises InputError if it is not a log
        found = fates_of(_whole(partition), self.settings, self.now, self.run.complain)
        if found is None and not self.tells_skipped:
            return
        if found is None:
            words = (
                "retention.ms does not apply to the metadata log, which is trimmed after a snapshot"
            )
            if _is_elsewhere(partition):
                words = (
                    "retention.ms does not apply to tiered storage or to marked directories "
                    "(-delete, -stray, -future)"
                )
            sink.note(f"{partition.name}: {words}\n")
            return
        shown = {log.base for log in partition.logs}
        verdicts = [fate for fate in found.segments if fate.segment.base_offset in shown]
        found, roll = replace(found, segments=verdicts), found.roll
        self._freed += found.freed(self.now)
        self._odd += found.odd
        told = _told(found.settings, self.settings.sources(partition))
        width = max(len(grouped(verdict.segment.size)) for verdict in verdicts)
        for i, fate in enumerate(verdicts):
            lines = [heading(partition.name, told, sink.out.theme)] if i == 0 else []
            lines.append(fate_line(fate, width, sink.out.theme))
            sink.document(RETENTION, _row(fate, told), lines)
        if verdicts[-1].active:
            sink.document(ROLL, row_of(ROLL, roll, {"file": roll.name}), [roll_line(roll)])


@dataclass(frozen=True, slots=True)
class Fates:
    """The predicted retention and next roll of a partition."""

    segments: list[SegmentFate]
    roll: Roll
    settings: TopicSettings

    def freed(self, now: int) -> Freed:
        """Pairs of time and bytes freed, without odd times; segments already due count as freed
        now."""
        return [
            (now if fate.deletable else max(fate.at or now, now), fate.segment.size)
            for fate in self.segments
            if (fate.at is not None or fate.deletable) and not fate.odd
        ]

    @property
    def odd(self) -> int:
        """The bytes of segments kept until an odd time."""
        return sum(fate.segment.size for fate in self.segments if fate.odd)


def fates_of(
    partition: Partition, settings_of: SettingsOf, now: int, complain: Callable[[str], None]
) -> Fates | None:
    """Predict a retention check of a partition; None if retention does not apply: the metadata
    log, tiered storage, marked directories. now: in milliseconds. complain: receives errors about
    unreadable files next to the partition. Raises InputError."""
    directory, place, settings = settings_of.around(partition, complain)
    if place[0] == CLUSTER_METADATA or _is_elsewhere(partition):
        return None
    marks = directory.offsets.get(HIGH_WATERMARKS, {})
    copied = remote_end(partition) if settings.remote else None
    bounds = HeldBack(marks.get(place), copied, directory.offset(LOG_STARTS, place))
    facts, active = facts_of(partition, directory)
    fates = retained(facts, settings, bounds, now)
    if settings.remote and copied is None:
        fates = [replace(f, why=f"{f.why}; {UNKNOWN}") if f.deletable else f for f in fates]
    is_expired = len(fates) > 0 and all(fate.deletable for fate in fates)
    return Fates(fates, rolled(active, settings, now, is_expired), settings)


def _whole(partition: Partition) -> Partition:
    """The partition with all of its segments, if only some of them were given; raises
    InputError."""
    if not partition.given or not all(map(is_segment, partition.logs)):
        return partition
    given = {log.base: log for log in partition.logs}
    others = listing(str(partition.folder)).logs
    logs = {log.base: given.get(log.base, log) for log in [*others, *partition.logs]}
    return replace(partition, logs=[logs[base] for base in sorted(logs)])


def _is_elsewhere(partition: Partition) -> bool:
    """Whether it is in tiered storage or in a directory that a broker has marked."""
    return partition.is_stored or mark_of(partition.folder.name) != ""


def _told(settings: TopicSettings, sources: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The settings that apply, each with its source."""
    names = ("cleanup.policy", settings.time_limit, settings.size_limit)
    return with_sources(settings, sources, names)


def _row(fate: SegmentFate, settings: Mapping[str, object]) -> dict[str, object]:
    known = {
        "file": fate.segment.name,
        "base_offset": fate.segment.base_offset,
        "bytes": fate.segment.size,
        "largest_timestamp": fate.segment.largest,
        "timestamp_source": fate.segment.source,
        "deletable_at": fate.at,
        "settings": settings,
    }
    return row_of(RETENTION, fate, known)


def facts_of(
    partition: Partition, directory: LogDirectory
) -> tuple[list[SegmentTimes], ActiveFacts]:
    """The sizes and times by which retention judges the segments of a partition, and more about the
    active one; raises InputError."""
    active, end = active_of(partition.logs[-1])
    ends = [*(log.base for log in partition.logs[1:]), end]
    facts = [_facts(log, at) for log, at in zip(partition.logs, ends, strict=True)]
    last, time = facts[-1], active.last_time
    if (last.largest, last.source) == (0, TIME_INDEX) and directory.marker is None and time:
        # A preallocated entry: a broker that is running, or recovers, uses the real one.
        facts[-1] = replace(last, largest=time)
    return facts, active


def _facts(file: Input, end: int) -> SegmentTimes:
    base, size = file.base, size_of(file)
    largest, why = _last_time(file)
    if largest is not None and largest >= 0:
        return SegmentTimes(file.name, base, size, largest, TIME_INDEX, end)
    return SegmentTimes(file.name, base, size, modified_ms(file), FILE_TIME, end, why)


def _last_time(file: Input) -> tuple[int | None, str]:
    """Timestamp of the last entry of a segment's time index, or None and the reason."""
    with _opened(file, TIMES.suffix) as index:
        if index is None:
            return None, "it has no time index"
        n_entries = (index.size or 0) // _ENTRY
        if not n_entries:
            return None, "its time index is empty"
        data = index.block((n_entries - 1) * _ENTRY, 8, 8)
    time = int.from_bytes(data, "big", signed=True)
    return time, "" if time >= 0 else "its time index has no timestamp"


@contextmanager
def _opened(log: Input, suffix: str) -> Iterator[Source | None]:
    """A file next to a log; None if it is missing. Raises InputError. Kept cheap: there may be
    28,000 files."""
    path = f"{log.path.removesuffix('.log')}{suffix}"
    name = f"{log.name.removesuffix('.log')}{suffix}"
    source: Source | None = None
    try:
        source = opened_elsewhere(path) or FileSource(descriptor(path), name)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}", file=name) from error
    except InputError as error:
        if not error.is_gone:
            raise
    with nullcontext() if source is None else closing(source):
        yield source


def active_of(file: Input) -> tuple[ActiveFacts, int]:
    """Facts about the active segment, and its end offset: from its first batch and the batches
    after the last entry of its offset index. Raises InputError."""
    base = file.base
    entries, position = _last_entry(file, OFFSET_INDEX.suffix, _OFFSETS)
    times, _ = _last_entry(file, TIMES.suffix, _ENTRY)
    first_time = last_time = None
    last = base - 1
    with closing(LogBytes(file.path, file.name)) as log, suppress(CorruptError, StartFailed):
        first = next(batches(log, 0, log.size), None)
        if first is not None:
            first_time = last_time = first.max_timestamp
        for batch in batches(log, position, log.size):
            last = max(last, batch.last_offset)
            last_time = max(last_time or batch.max_timestamp, batch.max_timestamp)
    known, _ = _last_time(file)
    if known and last_time is not None:
        last_time = max(last_time, known)
    times_seen = first_time, last_time
    return ActiveFacts(file.name, base, log.size, *times_seen, last, entries, times), last + 1


def _last_entry(log: Input, suffix: str, width: int) -> tuple[int, int]:
    """Number of entries of an index without trailing zeros, and the last entry's last number;
    raises InputError."""
    with _opened(log, suffix) as index:
        if index is None:
            return 0, 0

        def entry(i: int) -> bytes:
            return index.block(i * width, width, width)

        low, high = 0, (index.size or 0) // width
        if high and any(entry(high - 1)):
            low = high
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if any(entry(middle)) else (low, middle)
        return low, int.from_bytes(entry(low - 1)[-4:], "big") if low else 0
