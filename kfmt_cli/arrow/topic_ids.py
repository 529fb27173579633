"""Reads the topic ids of partitions, which distinguish a topic from a recreated one, and the ids of
brokers, which distinguish replicas."""

from __future__ import annotations

from kfmt_cli.arrow.export.atomic_files import read_file_bytes
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.metadata.meta_properties import (
    parse_topic_id,
    read_meta_properties,
    read_topic_id,
)
from kfmt_cli.core.urls import format_display_name, is_local
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.file_names import parse_directory_topic_id
from kfmt_cli.disk.kinds import META_PROPERTIES_KIND, PARTITION_METADATA_KIND
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.errors import InputError, WrongFileKindError
from kfmt_cli.execution.file_split import FileSplit

PARTITION_METADATA_NAME = min(PARTITION_METADATA_KIND.names)


class TopicIdCache(dict[str, "str | None"]):
    """Topic ids by directory, each read at its first lookup."""

    def __missing__(self, directory: str) -> str | None:
        self[directory] = read_directory_topic_id(directory)
        return self[directory]

    def find_topic_id(self, split: FileSplit) -> str | None:
        """The topic id of a split: from its manifest, or from the directory's partition.metadata;
        None if neither has it. Raises InputError."""
        return (
            self[split.directory]
            if split.topic_id_partition is None
            else split.topic_id_partition[2]
        )


def find_known_topic_id(topic_ids: TopicIdCache, split: FileSplit) -> str | None:
    """The topic id of a file; None if it is unknown or cannot be read."""
    try:
        return topic_ids.find_topic_id(split)
    except InputError:
        return None


def log_directory_name(log_path: str) -> str:
    """The log directory of a log, as text."""
    return format_display_name(log_path.rpartition("/")[0].rpartition("/")[0])


def find_broker_id(log_path: str) -> int | None:
    """The id of the broker that has a log, from meta.properties of its log directory; None if that
    is unknown."""
    path = f"{log_path.rpartition('/')[0].rpartition('/')[0]}/{min(META_PROPERTIES_KIND.names)}"
    try:
        return read_meta_properties(classify_file(path, path)).node_id
    except InputError:
        return None


def read_directory_topic_id(directory: str) -> str | None:
    """The topic id in a directory's partition.metadata, or in its name in Kafka's
    LocalTieredStorage; None without a valid one. Raises InputError if the system or the store
    cannot read it.

    Source: `org.apache.kafka.server.log.remote.storage.RemoteTopicPartitionDirectory`.
    """
    return _read_partition_metadata(directory) or parse_directory_topic_id(
        directory.rpartition("/")[2]
    )


def _read_partition_metadata(directory: str) -> str | None:
    """The topic id in a directory's partition.metadata; see `read_directory_topic_id`."""
    metadata_path = f"{directory}/{PARTITION_METADATA_NAME}"
    metadata_file = classify_file(metadata_path, metadata_path)
    try:
        if is_local(metadata_path) or MOUNTS.find_tree_and_subpath(metadata_path) is not None:
            return format_uuid(read_topic_id(metadata_file))
        metadata_bytes = read_file_bytes(metadata_path)  # in one request
        return (
            None
            if metadata_bytes is None
            else format_uuid(parse_topic_id(metadata_file, metadata_bytes))
        )
    except (StartError, WrongFileKindError):
        return None
    except InputError as error:
        if error.is_missing:
            return None
        raise
