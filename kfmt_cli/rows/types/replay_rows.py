"""The objects of `replay`: partitions sent to a cluster, and offsets of groups there."""

from __future__ import annotations

from kfmt_cli.rows.column import LocationSource, RowType, flag_column, number_column, text_column

REPLAYED_ROW = RowType(
    "replayed",
    "A partition that `kfmt replay` has sent to a cluster.",
    (
        text_column("file", "The directory, or the log."),
        text_column("target_topic", "Topic in the cluster."),
        number_column(
            "target_partition", "Partition in the cluster; null with --by-key.", can_be_null=True
        ),
        number_column("records", "Records sent by this run; with --dry-run, records to be sent."),
        number_column("bytes", "Bytes of their keys and values."),
        number_column("first_offset", "Offset of the first of them on the disk.", can_be_null=True),
        number_column("last_offset", "Offset of the last of them on the disk.", can_be_null=True),
        number_column(
            "target_first_offset",
            "Offset of the first in the cluster; null with --by-key.",
            can_be_null=True,
        ),
        number_column(
            "target_last_offset",
            "Offset of the last in the cluster; null with --by-key.",
            can_be_null=True,
        ),
        number_column(
            "resumed_at", "The offset at which this run continued an earlier one.", can_be_null=True
        ),
        number_column(
            "already_there",
            "Records that had arrived from an earlier run without being acknowledged; not sent "
            "again.",
        ),
        number_column(
            "not_committed",
            "Records of aborted or unfinished transactions; not sent.",
        ),
        number_column(
            "timestamps_changed",
            "Records whose timestamp is 0, sent as 1: librdkafka sends 0 as the current time.",
        ),
        flag_column("dry_run", "Whether nothing was sent."),
    ),
    LocationSource.PARTITION,
)
REPLAYED_GROUP_ROW = RowType(
    "replayed_group",
    "An offset that a group had committed on the disks, and where the group continues in the "
    "cluster.",
    (
        text_column("group", "The group."),
        text_column("topic", "Topic on the disks."),
        number_column("partition", "Partition on the disks."),
        number_column("offset", "Committed offset on the disks."),
        text_column("target_topic", "Topic in the cluster."),
        number_column("target_offset", "Offset in the cluster; null if unknown.", can_be_null=True),
        flag_column("committed", "Whether it was committed in the cluster."),
        text_column("reason", "Why not.", can_be_null=True),
    ),
    LocationSource.NO_FILE,
)
REPLAYED_ROWS = (REPLAYED_ROW, REPLAYED_GROUP_ROW)
