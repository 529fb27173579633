"""The checkpoints of brokers and of Kafka Streams: text files with a version, the number of
entries, then the entries.

Source: `org.apache.kafka.server.common.CheckpointFile`; columns are separated by white space.
"""

from kfmt_cli.core.layout.field import OFFSET_UNIT, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import String
from kfmt_cli.core.layout.wire_types import Int32, Int64

_SOURCE_PACKAGE = "org.apache.kafka.storage.internals.checkpoint"


def _partition_offsets_layout(file_name: str, doc: str) -> Layout:
    """The Layout of a checkpoint with an offset for each partition. file_name: the file's name."""
    fields = (
        Field("topic", String, "The topic."),
        Field("partition", Int32, "The partition."),
        Field("offset", Int64, "The offset.", unit=OFFSET_UNIT),
    )
    return Layout(file_name, doc, f"{_SOURCE_PACKAGE}.OffsetCheckpointFile", fields, is_text=True)


STREAMS_CHECKPOINT = Layout(
    ".checkpoint",
    "`.checkpoint` in a state directory of Kafka Streams: the offset up to which each changelog is "
    "in the state stores of the task.",
    "org.apache.kafka.streams.state.internals.OffsetCheckpoint",
    (
        Field("topic", String, "The changelog topic."),
        Field("partition", Int32, "The partition."),
        Field(
            "offset",
            Int64,
            "The offset; -4 if Kafka Streams did not know it.",
            unit=OFFSET_UNIT,
            none_value=-4,
        ),
    ),
    is_text=True,
)
CHECKPOINTS = {
    checkpoint.name: checkpoint
    for checkpoint in (
        _partition_offsets_layout(
            "recovery-point-offset-checkpoint",
            "Recovery point of each partition: everything before it is flushed to disk.",
        ),
        _partition_offsets_layout(
            "replication-offset-checkpoint",
            "The high watermark of each partition.",
        ),
        _partition_offsets_layout(
            "log-start-offset-checkpoint",
            "Log start offset of each partition whose log starts inside its first segment.",
        ),
        _partition_offsets_layout(
            "cleaner-offset-checkpoint",
            "First dirty offset of each partition: where compaction will continue.",
        ),
        Layout(
            "leader-epoch-checkpoint",
            "Start offset of each leader epoch.",
            f"{_SOURCE_PACKAGE}.LeaderEpochCheckpointFile",
            (
                Field("epoch", Int32, "The leader epoch."),
                Field("start_offset", Int64, "Its first offset.", unit=OFFSET_UNIT),
            ),
            is_text=True,
        ),
    )
}
"""The Layout of an entry of a broker's checkpoint, by file name."""
