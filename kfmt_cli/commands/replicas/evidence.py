"""replicas: states that no healthy cluster leaves, as signs that a disk has lost something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfmt_cli.broker.cluster.cluster_image import PartitionInMetadata
from kfmt_cli.broker.cluster.election import NO_LEADER, Leadership
from kfmt_cli.commands.replicas.branches import Compared
from kfmt_cli.commands.replicas.nodes import DiskReplica, of_brokers
from kfmt_cli.commands.replicas.orders import Elections


def evidence_of(
    metadata: PartitionInMetadata,
    copies: Sequence[DiskReplica],
    found: Compared,
    elections: Elections,
) -> list[str]:
    """Sentences about a partition."""
    words = [
        *_short_leaders(metadata.state, copies, found),
        *_below_watermarks(metadata.state, copies),
        *_missing_directories(copies),
        *_lost_epochs(metadata, copies),
        *_other_topics(metadata, copies),
    ]
    words += [
        f"the metadata assigns broker {node}'s replica to a log directory that the broker does not "
        "have: its disk was replaced, or a directory was not given"
        for node in sorted(elections.homeless(metadata))
    ]
    return list(dict.fromkeys(words))


def _short_leaders(
    state: Leadership, copies: Sequence[DiskReplica], found: Compared
) -> Iterator[str]:
    """The last leader, or the only one that may lead, ends below another replica of its branch."""
    names = {state.leader: "was the last leader"} if state.leader != NO_LEADER else {}
    if len(state.isr) == 1:
        names.setdefault(state.isr[0], "was the last in the ISR")
    for node in state.last_known:
        names.setdefault(node, "was the last known leader")
    for copy in copies:
        if copy.broker_id not in names or copy.is_set_aside or not copy.is_end_known:
            continue
        mine = copy.log_end or 0
        parted = found.parted_at(copy)
        others = [
            other
            for other in copies
            if other is not copy and not other.is_set_aside and found.parted_at(other) == parted
        ]
        longest = max(others, key=lambda other: other.log_end or 0, default=None)
        if longest is not None and (longest.log_end or 0) > mine:
            yield (
                f"{copy.owner} {names[copy.broker_id]}, but its log ends at {mine} and "
                f"{longest.owner}'s at {longest.log_end}: its last records are lost, or its disk "
                "is new or an old copy"
            )


def _below_watermarks(state: Leadership, copies: Sequence[DiskReplica]) -> Iterator[str]:
    """A replica in the ISR ends below a high watermark, or a replica below its own."""
    for copy in copies:
        if copy.is_set_aside or not copy.is_end_known:
            continue
        others = (other.high_watermark or 0 for other in copies if other is not copy)
        highest = max(others, default=0)
        mine, own = copy.log_end or 0, copy.high_watermark or 0
        if mine < own and copy.folder is not None:
            yield (
                f"the log of {copy.owner} ends at {mine}, below its own high watermark, {own}: it "
                "has lost offsets"
            )
        elif copy.broker_id in state.isr and mine < highest:
            yield (
                f"{copy.owner} is in the ISR, but its log ends at {mine}, below the high "
                f"watermark of another replica, {highest}"
            )


def _missing_directories(copies: Sequence[DiskReplica]) -> Iterator[str]:
    for copy in copies:
        if copy.folder is None:
            yield f"{copy.owner} has no directory for the partition"


def _lost_epochs(metadata: PartitionInMetadata, copies: Sequence[DiskReplica]) -> Iterator[str]:
    """Another replica has batches of the last leader's epoch, which its own log lacks."""
    leader, epoch = metadata.state.leader, metadata.leader_epoch
    own = of_brokers(copies).get(leader)
    if own is None or own.is_set_aside or (own.latest_epoch or 0) >= epoch:
        return
    for copy in copies:
        if copy is not own and copy.latest_epoch == epoch and not copy.is_set_aside:
            yield (
                f"{copy.owner} has batches of leader epoch {epoch}, but that epoch's leader, "
                f"broker {leader}, has none"
            )


def _other_topics(metadata: PartitionInMetadata, copies: Sequence[DiskReplica]) -> Iterator[str]:
    for copy in copies:
        if copy.topic_id not in (None, metadata.topic_id):
            becomes = "the broker renames the directory to -stray"
            if copy.is_tiered:
                becomes = "it is the tiered storage of another topic of this name, and is not used"
            yield (
                f"the replica of {copy.owner} has topic id {copy.topic_id}, but the metadata has "
                f"{metadata.topic_id}: {becomes}"
            )
