"""The names of a log directory's own files.

Source: `kafka.log.LogManager`, `org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`.
"""

from __future__ import annotations

from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds import CLEAN_SHUTDOWN_KIND, META_PROPERTIES_KIND
from kfmt_cli.topics import CLUSTER_METADATA

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
METADATA_LOG_NAME = f"{CLUSTER_METADATA}-0"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
LOG_DIRECTORY_FILES = frozenset(
    {RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT}
    | META_PROPERTIES_KIND.names
    | CLEAN_SHUTDOWN_KIND.names
)


def is_log_directory(directory: DirectoryListing) -> bool:
    """Whether a directory has files that brokers write into their log directories."""
    return (
        not LOG_DIRECTORY_FILES.isdisjoint(directory.files)
        or METADATA_LOG_NAME in directory.directories
    )
