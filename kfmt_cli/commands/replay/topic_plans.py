"""The topics to create in a cluster: as the metadata log on the disks describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kfmt_cli.broker.cluster.cluster_image import metadata_end
from kfmt_cli.broker.start.image import replayed_undamaged
from kfmt_cli.commands.replay.sources import ReplaySource
from kfmt_cli.disk.opening import is_folder
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import Folder, listing
from kfmt_cli.errors import Caught, InputError
from kfmt_cli.rows.types.state_types import CONFIG, PARTITION
from kfmt_cli.topics import CLUSTER_METADATA

BROKERS_DEFAULT = -1
TIMESTAMP_TYPE = "message.timestamp.type"
# Lists of the old cluster's brokers.
_OF_BROKERS = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}


@dataclass(slots=True)
class TopicPlan:
    """A topic as it is to be created, and why not exactly as it was."""

    name: str
    partitions: int = 0
    replication_factor: int = BROKERS_DEFAULT
    settings: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def limit(self, brokers: int) -> None:
        """Adapt it to a cluster with this number of brokers."""
        if self.replication_factor > brokers:
            words = f"replication factor {brokers} instead of {self.replication_factor}"
            self.changes.append(f"{words}: the cluster has too few brokers")
            self.replication_factor = brokers
        least = self.settings.get("min.insync.replicas", "")
        if least.isdigit() and 0 < self.replication_factor < int(least):
            self.changes.append(f"min.insync.replicas {self.replication_factor}, not {least}")
            self.settings["min.insync.replicas"] = str(self.replication_factor)


def plans_of(
    sources: Iterable[ReplaySource],
    partitions: Iterable[Partition],
    complain: Callable[[str], None],
) -> dict[str, TopicPlan]:
    """The topics of some partitions, by their names in the cluster.

    partitions: all that were found, in whose log directories a metadata log may be. Without one:
    as many partitions as are on the disks. complain: receives errors about unreadable metadata
    logs.
    """
    plans: dict[str, TopicPlan] = {}
    of_source: dict[str, str] = {}
    for source in sources:
        plan = plans.setdefault(source.target, TopicPlan(source.target))
        plan.partitions = max(plan.partitions, source.number + 1)
        of_source[source.topic] = source.target
    unread: list[InputError] = []
    folder = _newest(sorted({str(each.log_directory) for each in partitions}), unread)
    if folder is None:
        return plans
    state = replayed_undamaged(folder, unread, unread).state()
    for error in unread:
        complain(str(error))
    for row in state[PARTITION].values():
        values = dict(zip(PARTITION.names, row, strict=True))
        if (name := of_source.get(str(values["topic"]))) is not None:
            plan = plans[name]
            plan.partitions = max(plan.partitions, int(values["partition"] or 0) + 1)
            plan.replication_factor = str(values["replicas"]).count(",") + 1
    for row in state[CONFIG].values():
        values = dict(zip(CONFIG.names, row, strict=True))
        name = of_source.get(str(values["resource"]))
        if name is not None and values["resource_type"] == "TOPIC" and values["value"] is not None:
            _set(plans[name], str(values["name"]), str(values["value"]))
    return plans


def _set(plan: TopicPlan, name: str, value: str) -> None:
    if name in _OF_BROKERS:
        return
    if name == TIMESTAMP_TYPE and value == "LogAppendTime":
        words = "would replace the timestamps; set it after the replay"
        plan.changes.append(f"without {name}=LogAppendTime, which {words}")
        return
    plan.settings[name] = value


def _newest(directories: Iterable[str], unread: list[InputError]) -> Folder | None:
    """The newest metadata log in some log directories: of the latest epoch, the longest."""
    found: list[tuple[int, int, Folder]] = []
    for directory in directories:
        path = f"{directory}/{CLUSTER_METADATA}-0"
        with Caught(unread.append):
            if is_folder(path):
                folder = listing(path)
                end, epoch = metadata_end(folder, unread)
                found.append((epoch, end, folder))
    return max(found, key=lambda each: each[:2], default=(0, 0, None))[2]
