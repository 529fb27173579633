"""Small text files of a broker: names and values.

In a file each name is spelled in the file's own way: `node.id`, `brokerEpoch`, `topic_id`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import String, UuidType
from kfmt_cli.core.layout.wire import Int32, Int64
from kfmt_cli.formats.kraft import QUORUM_STATE_DATA

META_PROPERTIES = Layout(
    "MetaProperties",
    "`meta.properties`: whose log directory it is. A file of Java's properties.",
    "org.apache.kafka.metadata.properties.MetaProperties",
    (
        Field("version", Int32, "0 with ZooKeeper, 1 with KRaft."),
        Field("broker_id", Int32, "The broker, in version 0."),
        Field("node_id", Int32, "The node, in version 1."),
        Field("cluster_id", String, "The cluster."),
        Field("directory_id", UuidType, "The log directory, since 3.7."),
    ),
    text=True,
)
PARTITION_METADATA = Layout(
    "PartitionMetadata",
    "`partition.metadata`: whose partition it is, also after a topic was made again by its name.",
    "org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile",
    (
        Field("version", Int32, "Version of the file: 0."),
        Field("topic_id", UuidType, "The topic's id."),
    ),
    text=True,
)
CLEAN_SHUTDOWN = Layout(
    "CleanShutdown",
    "`.kafka_cleanshutdown`: that it is there says that the broker was shut down cleanly. JSON, "
    "and empty before 3.7.",
    "org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler",
    (
        Field("version", Int32, "Version of the file: 0."),
        Field("broker_epoch", Int64, "Epoch that the broker had."),
    ),
    text=True,
)
QUORUM_STATE = Layout(
    "QuorumState",
    "`quorum-state`: the vote of this replica of the metadata log. JSON.",
    "org.apache.kafka.raft.internals.FileQuorumStateStore",
    (Field("data_version", Int32, "Version of the file: 0 or 1."), *QUORUM_STATE_DATA.fields),
    text=True,
)
