"""The objects about a dead cluster: its directories, replicas, and the orders of starting it."""

from __future__ import annotations

from kfmt_cli.rows.column import RowType, flag_column, json_column, number_column, text_column

_TOPIC = text_column("topic", "The topic.")
_PARTITION = number_column("partition", "The partition.")

DIRECTORY_ROW = RowType(
    "directory",
    "A log directory of a node of the cluster.",
    (
        text_column("file", "The directory."),
        number_column("node_id", "The node; null without meta.properties.", can_be_null=True),
        json_column("roles", "broker, controller or both."),
        text_column("cluster_id", "The cluster id in meta.properties.", can_be_null=True),
        text_column("directory_id", "The directory id in meta.properties.", can_be_null=True),
        flag_column("clean_shutdown", "Whether it has .kafka_cleanshutdown."),
        number_column(
            "metadata_end_offset", "Log end offset of its metadata log.", can_be_null=True
        ),
        number_column(
            "metadata_epoch", "Epoch of the last batch of its metadata log.", can_be_null=True
        ),
        flag_column("metadata_is_newest", "Whether its metadata log is the newest of all."),
        text_column("why_not", "Why the cluster does not admit the node.", can_be_null=True),
    ),
)
MERGE_ROW = RowType(
    "merge",
    "A partition merged from several replicas.",
    (
        _TOPIC,
        _PARTITION,
        text_column("file", "Its directory under DST."),
        json_column("offsets", "Ranges of offsets that were written, as [first, last]."),
        json_column(
            "from", "The part taken from each replica: broker_id, file, offsets and bytes."
        ),
        json_column(
            "missing", "Ranges of damaged offsets without an undamaged batch in any replica."
        ),
    ),
)
REPLICA_ROW = RowType(
    "replica",
    "A replica of a partition on the disk of a broker.",
    (
        _TOPIC,
        _PARTITION,
        text_column("topic_id", "The topic id in partition.metadata.", can_be_null=True),
        number_column("broker_id", "The broker; null if unknown.", can_be_null=True),
        text_column("file", "The directory; null if it is missing.", can_be_null=True),
        number_column("log_start_offset", "Log start offset.", can_be_null=True),
        number_column("log_end_offset", "Log end offset, on the disk as it is.", can_be_null=True),
        number_column(
            "log_end_offset_after_start",
            "Log end offset after the next start of its broker; null if the replica goes offline, "
            "or if a file was unread, so that no start is predicted.",
            can_be_null=True,
        ),
        number_column("latest_epoch", "Leader epoch of the last batch.", can_be_null=True),
        json_column("epochs", "Leader epochs of the batches, each with its first offset."),
        number_column(
            "high_watermark_checkpoint", "In replication-offset-checkpoint.", can_be_null=True
        ),
        number_column("recovery_point", "In recovery-point-offset-checkpoint.", can_be_null=True),
        json_column("damaged_offsets", "Ranges of offsets in damaged batches, as [first, last]."),
        flag_column("in_isr", "Whether the metadata has it in the ISR.", can_be_null=True),
        flag_column("in_elr", "Whether the metadata has it in the ELR.", can_be_null=True),
        text_column("may_lead", "isr, elr, last_known_leader, unclean or no."),
        text_column("why_not", "Why it cannot be elected.", can_be_null=True),
    ),
)
REPLICAS_ROW = RowType(
    "replicas",
    "A partition: its state in the metadata, and a comparison of its replicas.",
    (
        _TOPIC,
        _PARTITION,
        json_column("replicas", "The brokers."),
        number_column("leader", "The leader; -1 for none.", can_be_null=True),
        number_column("leader_epoch", "Leader epoch.", can_be_null=True),
        number_column("partition_epoch", "Partition epoch.", can_be_null=True),
        json_column("isr", "In-sync replicas (ISR)."),
        json_column("eligible_leader_replicas", "Eligible leader replicas (ELR)."),
        json_column("last_known_elr", "Last known leader."),
        number_column("min_insync_replicas", "min.insync.replicas.", can_be_null=True),
        flag_column(
            "unclean_leader_election_enable", "unclean.leader.election.enable.", can_be_null=True
        ),
        text_column(
            "metadata_from", "The directory of the metadata log that was used.", can_be_null=True
        ),
        text_column("verdict", "identical, `behind`, diverged, damaged, empty or foreign."),
        number_column(
            "diverged_at",
            "First offset at which replicas hold different records.",
            can_be_null=True,
        ),
        json_column("branches", "Groups of replicas that agree: brokers, latest_epoch, end."),
        json_column("evidence", "Signs of lost data on a disk, as sentences."),
    ),
)
START_ORDER_ROW = RowType(
    "start_order",
    "Predicted outcome for a partition if brokers are started in an order.",
    (
        _TOPIC,
        _PARTITION,
        json_column("order", "Broker ids in turn; the text as given if it is not a plain list."),
        flag_column("unclean", "Whether it includes an unclean election."),
        number_column(
            "leader", "The leader at the end; null if the partition is offline.", can_be_null=True
        ),
        text_column(
            "elected_from",
            "isr, elr, last_known_leader or unclean; null if the leader is unknown.",
            can_be_null=True,
        ),
        number_column(
            "log_end_offset",
            "Its log end offset; null if the partition is offline.",
            can_be_null=True,
        ),
        json_column("lost_offsets", "Ranges of offsets that are lost, as [first, last]."),
        json_column(
            "lost_acknowledged_at_least",
            "Those below the greatest high watermark in a checkpoint.",
        ),
        json_column(
            "returning_offsets",
            "Ranges of offsets whose records return although another branch replaced them.",
        ),
        flag_column(
            "certain", "Whether the disks determine the outcome; false if it depends on timing."
        ),
        json_column("alternatives", "Possible outcomes: leader, log_end_offset."),
    ),
)
