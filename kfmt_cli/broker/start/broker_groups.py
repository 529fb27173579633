"""The brokers that log directories belong to."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.directory import LogDirectory, load_log_directory
from kfmt_cli.broker.version import PredictedVersion


def predict_broker_version(log_directory: Path) -> PredictedVersion:
    """The Kafka version of a log directory's broker, from its metadata log; else the default."""
    broker_directories = BrokerDirectories([load_log_directory(log_directory)])
    broker_directories.set_predicted_version(None)
    return broker_directories.predicted_version


def group_directories_by_broker(
    directories: Iterable[LogDirectory], user_paths: frozenset[str], listed_paths: Collection[str]
) -> list[BrokerDirectories]:
    """Group log directories by broker.

    A broker has one metadata log. A directory without one belongs to the broker that has the same
    ids. If the user named it together with the directory of one broker, it belongs to that broker,
    unless its ids name another broker in the metadata log. A log directory inside another one forms
    a group of its own. user_paths: the paths that the user named. listed_paths: the paths of log
    directories.
    """
    all_directories: list[LogDirectory] = []
    inner_directories: list[LogDirectory] = []
    for directory in directories:
        directory.outer_path = next(
            (path for path in listed_paths if directory.path.startswith(f"{path.rstrip('/')}/")),
            None,
        )
        outer_path = directory.outer_path
        (all_directories if outer_path is None else inner_directories).append(directory)
    groups: list[BrokerDirectories] = []
    for directory in all_directories:
        if directory.has_metadata_log:
            group = _find_broker_group(groups, directory)
            if group is None or _is_copied_directory(group.directories[0], directory, user_paths):
                groups.append(BrokerDirectories([directory]))
            else:
                group.directories.append(directory)
    explicit_groups = [group for group in groups if group.directories[0].path in user_paths]
    for directory in all_directories:
        if directory.has_metadata_log:
            continue
        group = _find_broker_group(groups, directory)
        if group is None and directory.path in user_paths and len(explicit_groups) == 1:
            [explicit_group] = explicit_groups
            if not explicit_group.is_owned_by_other_broker(directory):
                group = explicit_group
        if group is None:
            groups.append(BrokerDirectories([directory]))
        else:
            group.directories.append(directory)
    return [*groups, *(BrokerDirectories([directory]) for directory in inner_directories)]


def _find_broker_group(
    groups: list[BrokerDirectories], directory: LogDirectory
) -> BrokerDirectories | None:
    meta_properties = directory.meta_properties
    return next(
        (
            group
            for group in groups
            if group.directories[0].meta_properties.is_same_broker(meta_properties)
        ),
        None,
    )


def _is_copied_directory(
    original: LogDirectory, directory: LogDirectory, user_paths: frozenset[str]
) -> bool:
    """Whether a directory has the same directory.id as another, which makes it a copy and so
    another broker's, unless the user named both."""
    has_same_id = original.meta_properties.directory_id == directory.meta_properties.directory_id
    return has_same_id and not {original.path, directory.path} <= user_paths
