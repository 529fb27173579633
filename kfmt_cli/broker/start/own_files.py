"""The names of a log directory's own files.

Source: `kafka.log.LogManager`, `org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`.
"""

from __future__ import annotations

from kfmt_cli.disk.kinds import CLEAN_SHUTDOWN, META_PROPERTIES
from kfmt_cli.disk.tree import Folder
from kfmt_cli.topics import CLUSTER_METADATA

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
METADATA_LOG = f"{CLUSTER_METADATA}-0"
BOOTSTRAP = "bootstrap.checkpoint"
OF_LOG_DIRECTORY = frozenset(
    {RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS}
    | META_PROPERTIES.names
    | CLEAN_SHUTDOWN.names
)


def is_log_directory(folder: Folder) -> bool:
    """Whether a directory has files that brokers write into their log directories."""
    return not OF_LOG_DIRECTORY.isdisjoint(folder.files) or METADATA_LOG in folder.folders
