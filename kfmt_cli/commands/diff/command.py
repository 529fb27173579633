"""diff: compares two replicas of a partition by offsets, leader epochs and checksums."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from kfmt_cli.broker.cluster.replicas import Range, Relation, cut_to
from kfmt_cli.checks.comparison import RANGE, Agreement, Comparison
from kfmt_cli.commands.each_partition import reading
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.partitions import Partition, partitions_below
from kfmt_cli.errors import ExitCode, UsageError
from kfmt_cli.render.style import safe
from kfmt_cli.rows.documents import DIFF

# The words for replicas that do not contradict each other.
AGREEING = {
    Agreement.IDENTICAL: "identical",
    Agreement.CONSISTENT: "no divergence",
    Agreement.DAMAGED: "no divergence in the undamaged data",
}


@dataclass(slots=True)
class Diff:
    """One call of `diff`."""

    run: Run
    limit: Limit = field(default_factory=Limit)

    def paths(self, a: str, b: str) -> None:
        """Compare two partitions, or every partition that two log directories have in common."""
        ours, theirs = (
            partitions_below((path,), self.run.complain, self.run.sink.note) for path in (a, b)
        )
        pairs = [(ours[0], theirs[0])] if len(ours) == len(theirs) == 1 else []
        if not pairs and ours and theirs:
            tops = {id(partition): a for partition in ours}
            tops |= {id(partition): b for partition in theirs}
            pairs = _paired(
                *(ours, theirs),
                lambda partition: os.path.relpath(partition.name, name_text(tops[id(partition)])),
            )
            pairs = pairs or _paired(ours, theirs, lambda partition: partition.folder.name)
            if not pairs:
                both = f"{name_text(a)} and {name_text(b)}"
                raise UsageError(f"{both} have no partitions in common")
        logs = [log for pair in pairs for partition in pair for log in partition.logs]
        with reading(self.run, logs):
            for one, other in pairs:
                self._pair(one, other)

    def _pair(self, one: Partition, other: Partition) -> None:
        run = self.run
        found = Comparison.of(one, other, self.limit, run.most_findings)
        with run.complaining():
            found.read()
            for side in (found.a, found.b):
                with run.complaining():
                    side.learn_epochs()
                for finding in side.findings:
                    run.take(finding)
                run.left_out(side.files.name, side.findings)
            title = (f"A {one.name}", f"B {other.name}")
            run.rows(one.name, RANGE, [list(found.rows())], ("range", "ranges"), title=title)
            self._verdict(found)

    def _verdict(self, found: Comparison) -> None:
        """Show the verdict."""
        a, b, parted, verdict = found.a, found.b, found.parted, found.verdict
        row: dict[str, object] = {"file": a.files.name, "other": b.files.name}
        row |= {"a_end": a.end, "b_end": b.end, "verdict": verdict.value}
        if verdict in AGREEING:
            lines = [f"{AGREEING[verdict]}; log end offset: A {a.end}, B {b.end}\n"]
        elif parted is None:
            first = found.missing[0]
            lines = [f"offsets {first.first}–{first.last} are missing on one side\n"]
        else:
            members, lines = _divergence(found, parted.first)
            row |= members
        if verdict not in AGREEING:
            self.run.host.reached(ExitCode.FINDINGS)
        self.run.sink.document(DIFF, row, lines)


def _divergence(found: Comparison, at: int) -> tuple[dict[str, object], list[str]]:
    """The members of the verdict on replicas that diverge at an offset, and its lines."""
    a, b = found.a, found.b
    epoch_a, epoch_b = a.epochs.last, b.epochs.last
    later = None if epoch_a == epoch_b else "A" if epoch_a > epoch_b else "B"
    row: dict[str, object] = {"diverged_at": at, "later": later, "cut_to": None}
    row |= {"a_latest_epoch": epoch_a, "b_latest_epoch": epoch_b}
    if different := _different(a.files, b.files):
        return row, [f"{different}: their records differ from offset {at} onward\n"]
    alone = [_alone(found.ranges, at, only) for only in (Relation.ONLY_A, Relation.ONLY_B)]
    lines = [
        f"diverged at offset {at}: latest leader epoch A {epoch_a}, B {epoch_b}\n",
        f"  only in A: {alone[0]}; only in B: {alone[1]}\n",
    ]
    if later is not None:
        follower, leader = (a, b) if later == "B" else (b, a)
        row["cut_to"] = cut_to(follower.epochs, leader.epochs)
        name = "A" if later == "B" else "B"
        lines.append(
            f"  under a leader with the later epoch, {later} stays unchanged and {name} is "
            f"truncated to offset {row['cut_to']}\n"
        )
    return row, lines


def _different(one: Partition, other: Partition) -> str | None:
    """The words for two that are no replicas of one partition, by their directories' names; None
    if they may be."""
    if None in (*one.place, *other.place) or one.place == other.place:
        return None
    kind = "partitions" if one.place[0] == other.place[0] else "topics"
    a, b = (f"{safe(str(topic))}-{number}" for topic, number in (one.place, other.place))
    return f"{a} and {b} are two {kind}, not replicas"


def _paired(
    ours: list[Partition], theirs: list[Partition], name: Callable[[Partition], str]
) -> list[tuple[Partition, Partition]]:
    """Pair partitions by name; raises UsageError if B has two with the same name."""
    by_name: dict[str, Partition] = {}
    for their in theirs:
        other = by_name.setdefault(name(their), their)
        if other is not their:
            both = f"{other.name} and {their.name}"
            raise UsageError(f"{both} have the same name; give the two partitions to compare")
    return [(our, by_name[name(our)]) for our in ours if name(our) in by_name]


def _alone(ranges: list[Range], first: int, own: Relation) -> str:
    """Text of the offset ranges only in one replica, starting at the divergence."""
    found: list[list[int]] = []  # in log order, as damaged batches may go back
    for range_ in ranges:
        if range_.first < first or range_.relation not in (Relation.DIVERGED, own):
            continue
        if found and found[-1][1] + 1 == range_.first:
            found[-1][1] = range_.last
        else:
            found.append([range_.first, range_.last])
    return ", ".join(f"{a}–{b}" for a, b in found) or "nothing"
