"""The text files of a broker: a version line, a line with the number of entries, the entries.

Source: `org.apache.kafka.server.common.CheckpointFile`; columns are separated by white space.
"""

from kfmt_cli.core.layout.field import OFFSET, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import String
from kfmt_cli.core.layout.wire import Int32, Int64

_SOURCE = "org.apache.kafka.storage.internals.checkpoint"


def _of_partitions(name: str, doc: str) -> Layout:
    """The file of that name, with an offset for each partition."""
    fields = (
        Field("topic", String, "The topic."),
        Field("partition", Int32, "The partition."),
        Field("offset", Int64, "The offset.", unit=OFFSET),
    )
    return Layout(name, doc, f"{_SOURCE}.OffsetCheckpointFile", fields, text=True)


CHECKPOINTS = {
    checkpoint.name: checkpoint
    for checkpoint in (
        _of_partitions(
            "recovery-point-offset-checkpoint",
            "Recovery point of each partition: everything before it is flushed to disk.",
        ),
        _of_partitions(
            "replication-offset-checkpoint",
            "The high watermark of each partition.",
        ),
        _of_partitions(
            "log-start-offset-checkpoint",
            "Log start offset of each partition whose log starts inside its first segment.",
        ),
        _of_partitions(
            "cleaner-offset-checkpoint",
            "First dirty offset of each partition: where compaction will continue.",
        ),
        Layout(
            "leader-epoch-checkpoint",
            "Start offset of each leader epoch.",
            f"{_SOURCE}.LeaderEpochCheckpointFile",
            (
                Field("epoch", Int32, "The leader epoch."),
                Field("start_offset", Int64, "Its first offset.", unit=OFFSET),
            ),
            text=True,
        ),
    )
}
"""A line of each file, by the file's name."""
