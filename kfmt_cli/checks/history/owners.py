"""The owner and the replicas that log directories must have, according to the metadata log."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.checks.history.history_check import BrokerCheck, format_first_names
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.file_names import parse_broker_topic_partition, valid_directory_marker_suffix
from kfmt_cli.disk.kinds import META_PROPERTIES_KIND
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding


class DirectoryOwnerCheck(BrokerCheck):
    """A log directory belongs to the broker that its meta.properties names."""

    def check_broker(self, broker: BrokerDirectories) -> Iterator[Finding]:
        owner = broker.foreign_owner
        if owner is None:
            return
        meta_properties = owner.directory.meta_properties
        local_node_id = meta_properties.node_id
        subject = "every partition here"
        if owner.is_by_directory_id:
            subject = f"directory.id {meta_properties.directory_id}"
        message = (
            f"node.id is {local_node_id}, but the metadata log assigns {subject} to "
            f"broker {owner.node_id}"
        )
        properties_path = (
            f"{format_display_name(owner.directory.path)}/{min(META_PROPERTIES_KIND.names)}"
        )
        yield Finding(
            properties_path,
            codes.OWNER_CONTRADICTED,
            None,
            message,
            expected=owner.node_id,
            found=local_node_id,
        )


class MissingReplicasCheck(BrokerCheck):
    """Every replica that the metadata log assigns to a log directory exists in it.

    A partition without other replicas is skipped: no other replica can be truncated to its empty
    log, and the checkpoints show that it existed.
    """

    def check_broker(self, broker: BrokerDirectories) -> Iterator[Finding]:
        existing_partitions = {
            parse_broker_topic_partition(replica.name)
            for replica in broker.replicas
            if valid_directory_marker_suffix(replica.name) not in ("delete", "stray")
        }
        for directory in broker.directories:
            if not directory.is_fully_listed:
                continue
            missing_partitions = [
                f"{topic}-{partition}"
                for topic, partition in broker.assigned_replicated_partitions(directory)
                if (topic, partition) not in existing_partitions
            ]
            if missing_partitions:
                message = f"no directory for {format_first_names(missing_partitions)}"
                yield Finding(
                    format_display_name(directory.path), codes.REPLICA_MISSING, None, message
                )


class MovingReplicasCheck(BrokerCheck):
    """No replica is being moved from one log directory to another."""

    def check_broker(self, broker: BrokerDirectories) -> Iterator[Finding]:
        replicas = broker.replicas
        current_replica_by_partition = {
            parse_broker_topic_partition(replica.name): replica
            for replica in replicas
            if not valid_directory_marker_suffix(replica.name)
        }
        for replica in replicas:
            if valid_directory_marker_suffix(replica.name) == "future":
                replaced_replica = current_replica_by_partition.get(
                    parse_broker_topic_partition(replica.name)
                )
                message = "the replica that it replaces was not found"
                if replaced_replica is not None:
                    message = f"replaces {replaced_replica.display_path}"
                yield Finding(replica.display_path, codes.REPLICA_MOVING, None, message)
