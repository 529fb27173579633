"""The topics to create in a cluster, as the metadata log on the disks describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kfmt_cli.broker.metadata.metadata_replay import replay_undamaged_metadata
from kfmt_cli.broker.metadata.opened_log import open_metadata_log
from kfmt_cli.commands.replay.sources import ReplaySource
from kfmt_cli.core.integers import parse_java_int
from kfmt_cli.disk.directory_listing import DirectoryListing, list_directory
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError, InputErrorHandler
from kfmt_cli.rows.types.state_rows import CONFIG_ROW, PARTITION_STATE_ROW
from kfmt_cli.topics import CLUSTER_METADATA

DEFAULT_REPLICATION_FACTOR = -1
TIMESTAMP_TYPE_SETTING = "message.timestamp.type"
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
    differences: list[str] = field(default_factory=list)

    def adapt_to_brokers(self, n_brokers: int) -> None:
        """Limit the replication factor to the number of brokers, and min.insync.replicas to the
        replication factor."""
        if self.replication_factor > n_brokers:
            message = f"replication factor {n_brokers} instead of {self.replication_factor}"
            self.differences.append(f"{message}: the cluster has too few brokers")
            self.replication_factor = n_brokers
        min_isr = parse_java_int(self.settings.get("min.insync.replicas", "").strip())
        if min_isr is not None and 0 < self.replication_factor < min_isr:
            self.differences.append(f"min.insync.replicas {self.replication_factor}, not {min_isr}")
            self.settings["min.insync.replicas"] = str(self.replication_factor)


def create_topic_plans(
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
    metadata_listing = _find_newest_metadata_log(
        sorted({str(partition.log_directory) for partition in partitions}), read_errors
    )
    if metadata_listing is None:
        return plan_by_topic
    rows_by_type = replay_undamaged_metadata(
        metadata_listing, read_errors, read_errors
    ).sorted_rows()
    for error in read_errors:
        report_error(str(error))
    for row in rows_by_type[PARTITION_STATE_ROW].values():
        value_by_column = dict(zip(PARTITION_STATE_ROW.member_names, row, strict=True))
        if (target_topic := target_by_topic.get(str(value_by_column["topic"]))) is not None:
            plan = plan_by_topic[target_topic]
            plan.n_partitions = max(plan.n_partitions, int(value_by_column["partition"] or 0) + 1)
            plan.replication_factor = str(value_by_column["replicas"]).count(",") + 1
    for row in rows_by_type[CONFIG_ROW].values():
        value_by_column = dict(zip(CONFIG_ROW.member_names, row, strict=True))
        target_topic = target_by_topic.get(str(value_by_column["resource"]))
        if (
            target_topic is not None
            and value_by_column["resource_type"] == "TOPIC"
            and value_by_column["value"] is not None
        ):
            _apply_setting(
                plan_by_topic[target_topic],
                str(value_by_column["name"]),
                str(value_by_column["value"]),
            )
    return plan_by_topic


def _apply_setting(plan: TopicPlan, setting_name: str, setting_value: str) -> None:
    if setting_name in _BROKER_LIST_SETTINGS:
        return
    if setting_name == TIMESTAMP_TYPE_SETTING and setting_value == "LogAppendTime":
        message = "would replace the timestamps; set it after the replay"
        plan.differences.append(f"without {setting_name}=LogAppendTime, which {message}")
        return
    plan.settings[setting_name] = setting_value


def _find_newest_metadata_log(
    log_directories: Iterable[str], read_errors: list[InputError]
) -> DirectoryListing | None:
    """The metadata log with the latest epoch, and of these the one with the highest end offset;
    None if no log directory has one."""
    candidates: list[tuple[int, int, DirectoryListing]] = []
    for log_directory in log_directories:
        metadata_path = f"{log_directory}/{CLUSTER_METADATA}-0"
        with InputErrorHandler(read_errors.append):
            if is_directory(metadata_path):
                directory_listing = list_directory(metadata_path)
                log = open_metadata_log(directory_listing, read_errors)
                candidates.append((log.last_epoch, log.end_offset, directory_listing))
    return max(candidates, key=lambda candidate: candidate[:2], default=(0, 0, None))[2]
