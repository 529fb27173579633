"""The objects of `replay`: partitions sent to a cluster, and offsets of groups there."""

from __future__ import annotations

from kfmt_cli.rows.column import Placed, RowType, flag, number, text

REPLAYED = RowType(
    "replayed",
    "A partition that `kfmt replay` has sent to a cluster.",
    (
        text("file", "The directory, or the log."),
        text("target_topic", "Topic in the cluster."),
        number("target_partition", "Partition in the cluster; null with --by-key.", null=True),
        number("records", "Records sent by this run; with --dry-run, records to be sent."),
        number("bytes", "Bytes of their keys and values."),
        number("first_offset", "Offset of the first of them on the disk.", null=True),
        number("last_offset", "Offset of the last of them on the disk.", null=True),
        number(
            "target_first_offset",
            "Offset of the first in the cluster; null with --by-key.",
            null=True,
        ),
        number(
            "target_last_offset",
            "Offset of the last in the cluster; null with --by-key.",
            null=True,
        ),
        number("resumed_at", "The offset at which this run continued an earlier one.", null=True),
        number(
            "already_there",
            "Records that had arrived from an earlier run without being acknowledged; not sent "
            "again.",
        ),
        number(
            "not_committed",
            "Records of aborted or unfinished transactions; not sent.",
        ),
        number(
            "timestamps_changed",
            "Records whose timestamp is 0, sent as 1: librdkafka sends 0 as the current time.",
        ),
        flag("dry_run", "Whether nothing was sent."),
    ),
    Placed.PARTITION,
)
REPLAYED_GROUP = RowType(
    "replayed_group",
    "An offset that a group had committed on the disks, and where the group continues in the "
    "cluster.",
    (
        text("group", "The group."),
        text("topic", "Topic on the disks."),
        number("partition", "Partition on the disks."),
        number("offset", "Committed offset on the disks."),
        text("target_topic", "Topic in the cluster."),
        number("target_offset", "Offset in the cluster; null if unknown.", null=True),
        flag("committed", "Whether it was committed in the cluster."),
        text("reason", "Why not.", null=True),
    ),
    Placed.NO_FILE,
)
REPLAYED_ROWS = (REPLAYED, REPLAYED_GROUP)
