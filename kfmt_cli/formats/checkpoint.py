"""The text files of a broker: a version line, a line with the number of entries, the entries.

Source: `org.apache.kafka.server.common.CheckpointFile`; columns are separated by white space.
"""

from dataclasses import dataclass

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import String
from kfmt_cli.core.layout.wire import Int32, Int64, WireType


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A kind of checkpoint file."""

    name: str
    doc: str
    source: str
    columns: tuple[str, ...]
    """The columns of an entry, all integers except the topic."""


_PARTITION = ("topic", "partition", "offset")

CHECKPOINTS = {
    checkpoint.name: checkpoint
    for checkpoint in (
        Checkpoint(
            "recovery-point-offset-checkpoint",
            "Recovery point of each partition: everything before it is flushed to disk.",
            "org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile",
            _PARTITION,
        ),
        Checkpoint(
            "replication-offset-checkpoint",
            "The high watermark of each partition.",
            "org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile",
            _PARTITION,
        ),
        Checkpoint(
            "log-start-offset-checkpoint",
            "Log start offset of each partition whose log starts inside its first segment.",
            "org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile",
            _PARTITION,
        ),
        Checkpoint(
            "cleaner-offset-checkpoint",
            "First dirty offset of each partition: where compaction will continue.",
            "org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile",
            _PARTITION,
        ),
        Checkpoint(
            "leader-epoch-checkpoint",
            "Start offset of each leader epoch.",
            "org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile",
            ("epoch", "start_offset"),
        ),
    )
}
# Type and description of each column.
COLUMNS: dict[str, tuple[WireType, str]] = {
    "topic": (String, "The topic."),
    "partition": (Int32, "The partition."),
    "offset": (Int64, "The offset."),
    "epoch": (Int32, "The leader epoch."),
    "start_offset": (Int64, "Its first offset."),
}


def layout_of(checkpoint: Checkpoint) -> Layout:
    """The layout of a checkpoint file's line, named after the file."""
    fields = tuple(Field(column, *COLUMNS[column]) for column in checkpoint.columns)
    return Layout(checkpoint.name, checkpoint.doc, checkpoint.source, fields, text=True)
