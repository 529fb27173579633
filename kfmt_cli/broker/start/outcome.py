"""The result of one kind of start on a partition: what remains and what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.start.load import KnownLogs, Loaded, load
from kfmt_cli.broker.start.ranges import LogRanges, Range, Ranges, common, ranges_of, without
from kfmt_cli.broker.start.reach import Reach
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.broker.version import BY_DEFAULT, PredictedFor
from kfmt_cli.disk.kinds import INDEXES
from kfmt_cli.disk.kinds.kind import SWAP
from kfmt_cli.disk.names import offset_of_name
from kfmt_cli.disk.tree import Folder

CRASH, CLEAN = "crash", "clean-shutdown"
STRAY, OFFLINE, UNSERVED = "stray", "offline", "unserved"


@dataclass(slots=True)
class Start:
    """A start on a partition, or on a file of the log directory that stops the broker."""

    file: str
    after: str
    """`CRASH` or `CLEAN`."""
    reason: str | None = None
    """Why the broker does not start, or why the partition is not served."""
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    cut: list[tuple[str, int]] = field(default_factory=list)
    """Name and new size of each log that is truncated."""
    deleted: list[str] = field(default_factory=list)
    """Names of the deleted files."""
    becomes: str | None = None
    """None if the partition is served; else `STRAY`, `OFFLINE` or `UNSERVED`."""
    is_offline: bool = False
    """Whether the reason takes the log directory offline if there are several."""
    is_consequence: bool = False
    """Whether the reason is the owner of the log directory."""
    is_twice: bool = False
    """Whether the reason is another directory of the same partition."""
    lost: Ranges = field(default_factory=list)
    """Ranges of offsets lost."""
    unreachable: Ranges = field(default_factory=list)
    """Ranges of offsets that are kept but that no seek reaches."""
    passing: Ranges = field(default_factory=list)
    """Those of them that consumers receive if they come from lower offsets."""
    salvageable: Ranges = field(default_factory=list)
    """Those of both that are in undamaged batches."""
    in_damage: Ranges = field(default_factory=list)
    """Ranges of offsets that consumers receive from damaged batches."""
    kafka: PredictedFor = BY_DEFAULT
    """The version of the broker."""

    @property
    def why(self) -> str:
        """The reason, without the name of the partition itself."""
        return (self.reason or "").removeprefix(f"{self.file}: ")

    @property
    def starts(self) -> bool:
        """Whether the broker starts."""
        return self.reason is None or self.becomes is not None

    @property
    def fails(self) -> bool:
        """Whether the broker does not start, or does not serve the partition."""
        return not self.starts or self.becomes is not None

    @property
    def loses(self) -> bool:
        """Whether consumers can no longer read data that is on the disk now."""
        return bool(self.lost or self.unreachable)

    @property
    def harms(self) -> bool:
        """Whether it changes anything, or fails."""
        changed = self.cut or self.deleted or self.lost or self.unreachable or self.becomes
        return not self.starts or bool(changed)


# The ranges of a partition's logs, by path and base offset, once read.
Read = dict[tuple[str, int], LogRanges]


def predict(start: Start, found: KnownLogs, odd: Mapping[int, frozenset[int]], read: Read) -> None:
    """Set the result of a start on a partition; raises InputError.

    odd: positions, by log, of malformed batches with a valid checksum. read: the known ranges of
    the logs; new ones are added.
    """
    try:
        loaded = load(found)
    except StartFailed as failed:
        start.reason, start.is_offline = str(failed), failed.is_offline
        return
    with closing(loaded):
        start.log_start_offset, start.log_end_offset = loaded.log_start, loaded.log_end
        deleted = _with_indexes(loaded, found.folder)
        start.deleted = [found.folder.input(file).name for file in deleted]
        cut = (segment for segment in loaded.segments if segment.size < segment.given_size)
        start.cut = [(segment.name, segment.size) for segment in cut]
        held = _held(found, loaded, odd, read)
        reach = Reach(loaded.segments, loaded.log_end, held.plain, held.by_log, odd)
        reached = reach.of(loaded.log_start)
        wanted = [(max(a, found.log_start), b) for a, b in held.before]
        there = [(a, min(b, loaded.log_end - 1)) for a, b in held.after]
        start.lost = without(without(wanted, there), reached)
        start.unreachable = without(without(wanted, start.lost), reached)
        if start.unreachable:
            start.passing = common(start.unreachable, reach.on_the_way(loaded.log_start))
        start.salvageable = common([*start.lost, *start.unreachable], held.undamaged)
        start.in_damage = without(reached, held.readable)


@dataclass(slots=True)
class _Held:
    """The offsets of a partition's logs, before a start and after it."""

    before: Ranges = field(default_factory=list)
    undamaged: Ranges = field(default_factory=list)
    """Those in undamaged batches."""
    readable: Ranges = field(default_factory=list)
    """Those in batches without any finding."""
    after: Ranges = field(default_factory=list)
    plain: dict[int, Range] = field(default_factory=dict)
    """The offsets of each segment with a valid log and index, by base offset."""
    by_log: dict[int, LogRanges] = field(default_factory=dict)
    """The batches of each other log, by base offset."""


def _held(found: KnownLogs, loaded: Loaded, odd: Mapping[int, frozenset[int]], read: Read) -> _Held:
    folder, held = found.folder, _Held()
    names = {offset_of_name(file): file for file in folder.files if file.endswith(".log")}
    bases = sorted(name for name in names if name is not None)
    following = dict(zip(bases, [*bases[1:], None], strict=True)) if bases else {}
    left = {segment.base: segment for segment in loaded.segments}

    def ranges(path: str, name: str, base: int) -> LogRanges:
        if (path, base) not in read:
            read[path, base] = ranges_of(replace(folder.input(name), path=path), base)
        return read[path, base]

    for base in bases:
        segment, sound = left.get(base), found.sound.get(base)
        if sound is not None:
            held.before.append((sound[0], sound[1] - 1))
            held.undamaged.append(held.before[-1])
            held.readable.append(held.before[-1])
        else:
            in_log = ranges(folder.input(names[base]).path, names[base], base)
            held.before += in_log.held(following[base])
            held.undamaged += in_log.undamaged()
            held.readable += in_log.undamaged(odd.get(base, frozenset()))
        if segment is None or segment.sound_end is None or sound is None:
            continue
        if segment.is_recovered or base in found.trusted:
            held.plain[base] = sound[0], sound[1] - 1
            held.after.append(held.plain[base])
    for base, segment in left.items():
        if base in held.plain or not segment.path:
            continue
        held.by_log[base] = ranges(segment.path, segment.path.rpartition("/")[2], base)
        is_cut = segment.size < segment.given_size
        held.after += held.by_log[base].held(following.get(base), segment.size if is_cut else None)
    return held


def _with_indexes(loaded: Loaded, folder: Folder) -> Iterator[str]:
    """The names of the deleted files, each log followed by its indexes."""
    left = {segment.base for segment in loaded.segments}
    names = set(folder.files)
    for name in loaded.deleted:
        yield name
        base = offset_of_name(name)
        if name.removesuffix(SWAP).endswith(".log") and base is not None and base not in left:
            indexes = (f"{base:020}{index.suffix}" for index in INDEXES)
            yield from (
                index for index in indexes if index in names and index not in loaded.deleted
            )
