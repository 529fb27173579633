"""What a start leaves of a partition, and what it loses: the answer for one kind of start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kfmt_cli.broker.start.load import Found, Loaded, load
from kfmt_cli.broker.start.ranges import LogRanges, Ranges, merged, ranges_of, without
from kfmt_cli.broker.start.reach import unreachable
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.files.names import offset_of_name

CRASH, CLEAN = "crash", "clean-shutdown"


@dataclass(slots=True)
class Start:
    """A start on a partition, or on a file of the log directory that keeps the broker down.

    after: `CRASH` or `CLEAN`. reason: why the broker does not start. cut: name and new size of each
    log that is cut. deleted: names. lost, unreachable: ranges of offsets.
    """

    file: str
    after: str
    reason: str | None = None
    log_end_offset: int | None = None
    cut: list[tuple[str, int]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    lost: Ranges = field(default_factory=list)
    unreachable: Ranges = field(default_factory=list)

    @property
    def starts(self) -> bool:
        """Whether the broker starts."""
        return self.reason is None

    @property
    def harms(self) -> bool:
        """Whether anything is lost by it."""
        changed = self.cut or self.deleted or self.lost or self.unreachable
        return not self.starts or bool(changed)


@dataclass(frozen=True, slots=True)
class Damage:
    """What is known of the batches of a partition's logs, by the log's base offset and position.

    unreadable: the first offset of a batch that consumers cannot read. spoiling: batches that make
    every fetch fail that has them.
    """

    unreadable: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    spoiling: Mapping[int, frozenset[int]] = field(default_factory=dict)


def start_of(file: str, found: Found, damage: Damage) -> Start:
    """What a broker makes of a partition; raises InputError. file: the partition's name."""
    start = Start(file, CLEAN if found.is_clean else CRASH)
    try:
        loaded = load(found)
    except StartFailed as failed:
        start.reason = str(failed)
        return start
    start.log_end_offset = loaded.log_end
    folder = found.folder
    start.deleted = [folder.input(it).name for it in loaded.deleted]
    start.cut = [(it.name, it.size) for it in loaded.segments if it.size < it.given_size]
    start.lost, start.unreachable = _offsets(found, loaded, damage)
    return start


def _offsets(found: Found, loaded: Loaded, damage: Damage) -> tuple[Ranges, Ranges]:
    """The offsets that are gone, and those that nobody reaches."""
    folder = found.folder
    names = {offset_of_name(it): it for it in folder.files if it.endswith(".log")}
    bases = sorted(it for it in names if it is not None)
    following = dict(zip(bases, [*bases[1:], None], strict=True)) if bases else {}
    before: Ranges = []
    after: Ranges = []
    missed: Ranges = []
    left = {it.base: it for it in loaded.segments}
    read: dict[tuple[int, str], LogRanges] = {}  # what a log holds, read once
    for base in bases:
        segment = left.get(base)
        sound = found.sound.get(base)
        if sound is not None and (segment is None or segment.sound_end is not None):
            held = merged([(base, sound - 1)])
            before += held
            after += held if segment is not None else []
            continue
        name = names[base]
        read[base, name] = ranges_of(folder.input(name), base)
        before += read[base, name].held(following[base])
    for base, segment in left.items():
        if segment.sound_end is not None or not segment.path:
            continue
        name = segment.path.rpartition("/")[2]
        its = read.pop((base, name), None) or ranges_of(folder.input(name), base)
        is_cut = segment.size < segment.given_size
        after += its.before(segment.size) if is_cut else its.held(following.get(base))
        found_bad = dict(damage.unreadable.get(base, {}))
        found_bad |= {it: _first_of(its, it) for it in its.bad}
        if is_cut:
            its.batches = [it for it in its.batches if it[0] < segment.size]
            its.findings.clear()
            its.bad.clear()
        missed += unreachable(
            segment,
            its,
            following.get(base),
            found_bad,
            damage.spoiling.get(base, frozenset()),
        )
    lost = without(before, [it for it in after if it[0] < loaded.log_end])
    behind = [it for it in merged(before) if it[1] >= loaded.log_end]
    lost = merged([*lost, *((max(a, loaded.log_end), b) for a, b in behind)])
    return lost, without(missed, lost)


def _first_of(held: LogRanges, position: int) -> int:
    return next((first for at, first, _ in held.batches if at == position), held.base)
