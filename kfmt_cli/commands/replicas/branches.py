"""replicas: where the replicas of a partition agree, and where they part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from kfmt_cli.broker.start.ranges import Ranges, common, merged, without
from kfmt_cli.checks.comparison import Comparison
from kfmt_cli.commands.replicas.nodes import DiskReplica
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.partitions import Partition

_REST = 1 << 63


@dataclass(slots=True)
class Branch:
    """Replicas that agree wherever more than one has a record, the longest first."""

    copies: list[DiskReplica]
    parted_at: int | None = None
    """The first offset at which it differs from the newest branch; None for that itself."""

    @property
    def end(self) -> int:
        """The greatest log end offset of its replicas."""
        return max(copy.log_end or 0 for copy in self.copies)

    @property
    def owners(self) -> str:
        """The brokers, or directories, of its replicas."""
        return ",".join(copy.owner.removeprefix("broker ") for copy in self.copies)

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch of its replicas."""
        epochs = [copy.latest_epoch for copy in self.copies if copy.latest_epoch is not None]
        return max(epochs, default=None)


@dataclass
class Compared:
    """The branches of a partition, the newest first."""

    branches: list[Branch] = field(default_factory=list)

    @cached_property
    def whole(self) -> Ranges:
        """The offsets that the replicas of the newest branch have together, undamaged."""
        if not self.branches:
            return []
        found = [range_ for copy in self.branches[0].copies for range_ in copy.undamaged]
        for branch in self.branches[1:]:
            before = [(branch.parted_at or 0, _REST)]
            for copy in branch.copies:
                found += without(copy.undamaged, before)
        return merged(found)

    @property
    def diverged_at(self) -> int | None:
        """The first offset at which replicas hold different records."""
        return min((b.parted_at for b in self.branches if b.parted_at is not None), default=None)

    def parted_at(self, copy: DiskReplica) -> int | None:
        """The first offset at which a replica differs from the newest branch."""
        return next((b.parted_at for b in self.branches if copy in b.copies), None)

    def lost_with(self, leader: DiskReplica | None) -> Ranges:
        """The offsets of the newest branch that a leader does not have after its start: neither in
        its log, nor below it in tiered storage."""
        if leader is None:
            return self.whole
        kept, parted = leader.kept, self.parted_at(leader)
        if parted is not None:
            kept = without(kept, [(parted, _REST)])
        below = [(-1, (leader.start_after or 0) - 1)]
        newest = (copy for branch in self.branches[:1] for copy in branch.copies)
        tiered = [range_ for copy in newest if copy.is_tiered for range_ in copy.undamaged]
        return without(without(self.whole, kept), common(merged(tiered), below))

    def returning_with(self, leader: DiskReplica | None) -> Ranges:
        """The offsets whose records a leader's log has, and that the newest branch replaced."""
        if leader is None:
            return []
        parted = self.parted_at(leader)
        return [] if parted is None else without(leader.kept, [(-1, parted - 1)])


def compared(copies: Sequence[DiskReplica], limit: Limit) -> Compared:
    """Compare the replicas of a partition; raises InputError."""
    found = Compared()
    known = [copy for copy in copies if copy.log_end is not None and not copy.is_set_aside]
    empty = [copy for copy in copies if copy.log_end is None and not copy.is_set_aside]
    for copy in sorted(known, key=_age, reverse=True):
        for branch in found.branches:
            if _parted(branch.copies[0], copy, limit) is None:
                branch.copies.append(copy)
                break
        else:
            at = _parted(found.branches[0].copies[0], copy, limit) if found.branches else None
            found.branches.append(Branch([copy], at))
    if found.branches:
        found.branches[0].copies += empty
    return found


def _age(copy: DiskReplica) -> tuple[int, int]:
    """Newer logs have the greater one."""
    last = copy.undamaged[-1][1] if copy.undamaged else -1
    return (-1 if copy.latest_epoch is None else copy.latest_epoch), last


def _parted(one: DiskReplica, other: DiskReplica, limit: Limit) -> int | None:
    """The first offset at which two replicas have different records; None if they agree."""
    pairs = zip(one.segments, other.segments, strict=False)
    same = list(takewhile(lambda pair: pair[0] == pair[1], pairs))
    if len(same) == min(len(one.segments), len(other.segments)) and not (
        one.damaged or other.damaged
    ):
        return None
    if same and not (one.damaged or other.damaged):
        same.pop()  # batches of two logs may overlap
    first = same[-1][0][2] if same else 0
    found = Comparison.of(_from(one, first), _from(other, first), limit)
    found.read()
    return None if found.parted is None else found.parted.first


def _from(copy: DiskReplica, first: int) -> Partition:
    """The logs of a replica that could be read, with offsets from `first` on."""
    assert copy.folder is not None
    wanted = {base for base, _, end, _ in copy.segments if end > first}
    logs = [log for log in copy.folder.logs if log.base in wanted]
    return Partition(copy.file or "", Path(copy.folder.path), logs)
