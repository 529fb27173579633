"""Small text files of a broker that contain names and values.

Each file has its own spelling of names: `node.id`, `brokerEpoch`, `topic_id`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import String, UuidType
from kfmt_cli.core.layout.wire_types import Int32, Int64
from kfmt_cli.formats.kafka_messages import message_layout

META_PROPERTIES = Layout(
    "MetaProperties",
    "`meta.properties`: identifies the owner of the log directory. A Java properties file.",
    "org.apache.kafka.metadata.properties.MetaProperties",
    (
        Field("version", Int32, "0 with ZooKeeper, 1 with KRaft."),
        Field("broker_id", Int32, "The broker, in version 0."),
        Field("node_id", Int32, "The node, in version 1."),
        Field("cluster_id", String, "The cluster."),
        Field("directory_id", UuidType, "The log directory, since 3.7."),
    ),
    is_text=True,
)
PARTITION_METADATA = Layout(
    "PartitionMetadata",
    "`partition.metadata`: the topic id of the partition, which tells re-created topics of the "
    "same name apart.",
    "org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile",
    (
        Field("version", Int32, "Version of the file: 0."),
        Field("topic_id", UuidType, "The topic's id."),
    ),
    is_text=True,
)
CLEAN_SHUTDOWN = Layout(
    "CleanShutdown",
    "`.kafka_cleanshutdown`: its presence means the broker was shut down cleanly. JSON; empty "
    "before 3.7.",
    "org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler",
    (
        Field("version", Int32, "Version of the file: 0."),
        Field("broker_epoch", Int64, "The broker epoch."),
    ),
    is_text=True,
)
QUORUM_STATE = Layout(
    "QuorumState",
    "`quorum-state`: vote of this metadata log replica. JSON.",
    "org.apache.kafka.raft.internals.FileQuorumStateStore",
    (
        Field("data_version", Int32, "Version of the file: 0 or 1."),
        *message_layout("QuorumStateData").fields,
    ),
    is_text=True,
)
