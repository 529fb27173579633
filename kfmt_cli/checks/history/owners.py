"""The owner and the replicas that log directories must have, according to the metadata log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.identities import BrokerIdentities, Situation
from kfmt_cli.checks.history.history_check import BrokerCheck, format_first_names
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.file_access import is_directory
from kfmt_cli.disk.file_names import valid_directory_marker_suffix
from kfmt_cli.disk.kinds import META_PROPERTIES_KIND
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding


class DirectoryOwnerCheck(BrokerCheck):
    """A log directory belongs to the broker that its meta.properties names."""

    def check_broker(
        self, broker: BrokerDirectories, identities: BrokerIdentities
    ) -> Iterator[Finding]:
        del identities
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

    def check_broker(
        self, broker: BrokerDirectories, identities: BrokerIdentities
    ) -> Iterator[Finding]:
        del identities
        existing_partitions = {
            replica.topic_partition
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
                # It may have been created since the directory was listed.
                and not is_directory(f"{directory.path}/{topic}-{partition}")
            ]
            if missing_partitions:
                message = f"no directory for {format_first_names(missing_partitions)}"
                yield Finding(
                    format_display_name(directory.path), codes.REPLICA_MISSING, None, message
                )


class PlacesCheck(BrokerCheck):
    """Each partition is in a log directory, in a directory with its name, and none is missing."""

    def check_broker(
        self, broker: BrokerDirectories, identities: BrokerIdentities
    ) -> Iterator[Finding]:
        for identity in identities.directories:
            name = identity.listing.name
            if identity.situation is Situation.NESTED:
                inner = format_display_name(identity.log_directory_path or "")
                message = f"{inner} is a log directory in {identity.log_directory.path}"
                yield Finding(name, codes.LOG_DIRECTORY_NESTED, None, message)
            elif identity.situation is Situation.MISNAMED and identity.name != identity.right_name:
                shown_by = "its topic id" if identity.topic_id is not None else "its name"
                message = (
                    f"{shown_by} shows that it is {identity.right_name}, "
                    f"with {identity.n_offsets} offsets"
                )
                yield Finding(name, codes.PARTITION_MISNAMED, None, message)
        if not any(directory.is_fully_listed for directory in broker.directories):
            return
        missing_partitions = [
            f"{topic}-{partition}" for topic, partition in identities.missing_alone
        ]
        if missing_partitions:
            message = f"no directory for {format_first_names(missing_partitions)}"
            name = format_display_name(broker.directories[0].path)
            yield Finding(name, codes.PARTITION_MISSING, None, message)


class MovingReplicasCheck(BrokerCheck):
    """No replica is being moved from one log directory to another."""

    def check_broker(
        self, broker: BrokerDirectories, identities: BrokerIdentities
    ) -> Iterator[Finding]:
        del identities
        replicas = broker.replicas
        current_replica_by_partition = {
            replica.topic_partition: replica
            for replica in replicas
            if not valid_directory_marker_suffix(replica.name)
        }
        for replica in replicas:
            if valid_directory_marker_suffix(replica.name) == "future":
                replaced_replica = current_replica_by_partition.get(replica.topic_partition)
                message = "the replica that it replaces was not found"
                if replaced_replica is not None:
                    message = f"replaces {replaced_replica.display_path}"
                yield Finding(replica.display_path, codes.REPLICA_MOVING, None, message)


def iter_cluster_findings(brokers: Sequence[BrokerDirectories]) -> Iterator[Finding]:
    """Findings for log directories that belong to a different cluster from the first broker's."""
    directories = [directory for broker in brokers for directory in broker.directories]
    cluster_ids = [
        directory.meta_properties.cluster_id
        for directory in directories
        if directory.meta_properties.cluster_id is not None
    ]
    if len(set(cluster_ids)) < 2:
        return
    [(usual_id, _)] = Counter(cluster_ids).most_common(1)
    for directory in directories:
        cluster_id = directory.meta_properties.cluster_id
        if cluster_id not in (None, usual_id):
            path = f"{format_display_name(directory.path)}/{min(META_PROPERTIES_KIND.names)}"
            message = f"cluster.id is {cluster_id}, but {usual_id} in the others"
            yield Finding(
                path,
                codes.CLUSTER_ID_DIFFERS,
                None,
                message,
                expected=usual_id,
                found=cluster_id,
            )
