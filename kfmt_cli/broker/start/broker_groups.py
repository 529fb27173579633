"""The brokers that log directories belong to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.directory import LogDirectory, open_log_directory
from kfmt_cli.broker.version import (
    PredictedVersion,
)


def predict_broker_version(log_directory: Path) -> PredictedVersion:
    """The version of the broker of a log directory, by its metadata log or the default."""
    broker = BrokerDirectories([open_log_directory(log_directory)])
    broker.predict_version(None)
    return broker.predicted_version


def group_by_broker(
    directories: Iterable[LogDirectory], user_paths: frozenset[str]
) -> list[BrokerDirectories]:
    """Group log directories by broker.

    A broker has one metadata log. A directory without one belongs to the broker that has the same
    ids. If the user named it together with the directory of one broker, it belongs to that broker,
    unless its ids name another broker in the metadata log. user_paths: the paths that the user
    named.
    """
    all_directories = list(directories)
    groups: list[BrokerDirectories] = []
    for directory in all_directories:
        if directory.has_metadata_log:
            existing_group = next(
                (group for group in groups if _is_same_broker(group.directories[0], directory)),
                None,
            )
            # A directory with the same directory.id is a copy, so another broker, unless the user
            # named both.
            directory_id = directory.meta_properties.directory_id
            is_copy = (
                existing_group is not None
                and existing_group.directories[0].meta_properties.directory_id == directory_id
            )
            are_both_explicit = (
                existing_group is not None
                and {existing_group.directories[0].path, directory.path} <= user_paths
            )
            if existing_group is None or (is_copy and not are_both_explicit):
                groups.append(BrokerDirectories([directory]))
            else:
                existing_group.directories.append(directory)
    explicit_brokers = [group for group in groups if group.directories[0].path in user_paths]
    for directory in all_directories:
        if directory.has_metadata_log:
            continue
        for broker in groups:
            if _is_same_broker(broker.directories[0], directory):
                broker.directories.append(directory)
                break
        else:
            is_explicit = directory.path in user_paths and len(explicit_brokers) == 1
            if is_explicit and not explicit_brokers[0].is_owned_by_other(directory):
                explicit_brokers[0].directories.append(directory)
            else:
                groups.append(BrokerDirectories([directory]))
    return groups


def _is_same_broker(left: LogDirectory, right: LogDirectory) -> bool:
    left_properties, right_properties = left.meta_properties, right.meta_properties
    has_same_ids = (left_properties.cluster_id, left_properties.node_id) == (
        right_properties.cluster_id,
        right_properties.node_id,
    )
    return left_properties.node_id is not None and has_same_ids
