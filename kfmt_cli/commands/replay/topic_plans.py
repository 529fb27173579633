"""The topics to create in a cluster, as the metadata log on the disks describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kfmt_cli.broker.cluster.cluster_image import read_metadata_end
from kfmt_cli.broker.start.metadata_replay import replay_undamaged_metadata
from kfmt_cli.commands.replay.sources import ReplaySource
from kfmt_cli.disk.directory_listing import DirectoryListing, list_directory
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError, InputErrorHandler
from kfmt_cli.rows.types.state_rows import CONFIG_ROW, PARTITION_STATE_ROW
from kfmt_cli.topics import CLUSTER_METADATA

DEFAULT_REPLICATION_FACTOR = -1
TIMESTAMP_TYPE = "message.timestamp.type"
# Settings that list brokers of the old cluster.
_BROKER_LIST_SETTINGS = {
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
}


@dataclass(slots=True)
class TopicPlan:
    """A topic to create, and descriptions of its differences from the original topic."""

    name: str
    n_partitions: int = 0
    replication_factor: int = DEFAULT_REPLICATION_FACTOR
    settings: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def adapt_to_brokers(self, n_brokers: int) -> None:
        """Limit the replication factor to the number of brokers, and min.insync.replicas to the
        replication factor."""
        if self.replication_factor > n_brokers:
            message = f"replication factor {n_brokers} instead of {self.replication_factor}"
            self.changes.append(f"{message}: the cluster has too few brokers")
            self.replication_factor = n_brokers
        min_isr = self.settings.get("min.insync.replicas", "")
        if min_isr.isdigit() and 0 < self.replication_factor < int(min_isr):
            self.changes.append(f"min.insync.replicas {self.replication_factor}, not {min_isr}")
            self.settings["min.insync.replicas"] = str(self.replication_factor)


def create_plans(
    sources: Iterable[ReplaySource],
    partitions: Iterable[Partition],
    report_error: Callable[[str], None],
) -> dict[str, TopicPlan]:
    """The topics of the sources, by their names in the cluster.

    partitions: all partitions found, whose log directories may contain a metadata log; without one,
    a topic has as many partitions as are on the disks. report_error: called with errors about
    unreadable metadata logs.
    """
    plan_by_topic: dict[str, TopicPlan] = {}
    target_by_topic: dict[str, str] = {}
    for source in sources:
        plan = plan_by_topic.setdefault(source.target_topic, TopicPlan(source.target_topic))
        plan.n_partitions = max(plan.n_partitions, source.partition_index + 1)
        target_by_topic[source.topic] = source.target_topic
    read_errors: list[InputError] = []
    metadata_log = _find_newest_metadata(
        sorted({str(partition.log_directory) for partition in partitions}), read_errors
    )
    if metadata_log is None:
        return plan_by_topic
    rows_by_type = replay_undamaged_metadata(metadata_log, read_errors, read_errors).sorted_rows()
    for error in read_errors:
        report_error(str(error))
    for row in rows_by_type[PARTITION_STATE_ROW].values():
        values = dict(zip(PARTITION_STATE_ROW.member_names, row, strict=True))
        if (name := target_by_topic.get(str(values["topic"]))) is not None:
            plan = plan_by_topic[name]
            plan.n_partitions = max(plan.n_partitions, int(values["partition"] or 0) + 1)
            plan.replication_factor = str(values["replicas"]).count(",") + 1
    for row in rows_by_type[CONFIG_ROW].values():
        values = dict(zip(CONFIG_ROW.member_names, row, strict=True))
        name = target_by_topic.get(str(values["resource"]))
        if name is not None and values["resource_type"] == "TOPIC" and values["value"] is not None:
            _apply_setting(plan_by_topic[name], str(values["name"]), str(values["value"]))
    return plan_by_topic


def _apply_setting(plan: TopicPlan, name: str, value: str) -> None:
    if name in _BROKER_LIST_SETTINGS:
        return
    if name == TIMESTAMP_TYPE and value == "LogAppendTime":
        message = "would replace the timestamps; set it after the replay"
        plan.changes.append(f"without {name}=LogAppendTime, which {message}")
        return
    plan.settings[name] = value


def _find_newest_metadata(
    directories: Iterable[str], read_errors: list[InputError]
) -> DirectoryListing | None:
    """The metadata log with the latest epoch, and of these the one with the highest end offset;
    None if no log directory has one."""
    candidates: list[tuple[int, int, DirectoryListing]] = []
    for directory in directories:
        path = f"{directory}/{CLUSTER_METADATA}-0"
        with InputErrorHandler(read_errors.append):
            if is_directory(path):
                directory_listing = list_directory(path)
                end_offset, epoch = read_metadata_end(directory_listing, read_errors)
                candidates.append((epoch, end_offset, directory_listing))
    return max(candidates, key=lambda candidate: candidate[:2], default=(0, 0, None))[2]
