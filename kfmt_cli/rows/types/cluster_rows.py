"""The objects about a dead cluster: its directories, replicas, and the orders of starting it."""

from __future__ import annotations

from kfmt_cli.rows.column import RowType, flag, json_value, number, text

_TOPIC = text("topic", "The topic.")
_PARTITION = number("partition", "The partition.")

DIRECTORY = RowType(
    "directory",
    "A log directory of a node of the cluster.",
    (
        text("file", "The directory."),
        number("node_id", "The node; null without meta.properties.", null=True),
        json_value("roles", "broker, controller or both."),
        text("cluster_id", "The cluster id in meta.properties.", null=True),
        text("directory_id", "The directory id in meta.properties.", null=True),
        flag("clean_shutdown", "Whether it has .kafka_cleanshutdown."),
        number("metadata_end_offset", "Log end offset of its metadata log.", null=True),
        number("metadata_epoch", "Epoch of the last batch of its metadata log.", null=True),
        flag("metadata_is_newest", "Whether its metadata log is the newest of all."),
        text("why_not", "Why the cluster does not admit the node.", null=True),
    ),
)
MERGED = RowType(
    "merge",
    "A partition merged from several replicas.",
    (
        _TOPIC,
        _PARTITION,
        text("file", "Its directory under DST."),
        json_value("offsets", "Ranges of offsets that were written, as [first, last]."),
        json_value("from", "The part taken from each replica: broker_id, file, offsets and bytes."),
        json_value(
            "missing", "Ranges of damaged offsets without an undamaged batch in any replica."
        ),
    ),
)
REPLICA = RowType(
    "replica",
    "A replica of a partition on the disk of a broker.",
    (
        _TOPIC,
        _PARTITION,
        text("topic_id", "The topic id in partition.metadata.", null=True),
        number("broker_id", "The broker; null if unknown.", null=True),
        text("file", "The directory; null if it is missing.", null=True),
        number("log_start_offset", "Log start offset.", null=True),
        number("log_end_offset", "Log end offset, on the disk as it is.", null=True),
        number(
            "log_end_offset_after_start",
            "Log end offset after the next start of its broker; null if the replica goes offline, "
            "or if a file was unread, so that no start is predicted.",
            null=True,
        ),
        number("latest_epoch", "Leader epoch of the last batch.", null=True),
        json_value("epochs", "Leader epochs of the batches, each with its first offset."),
        number("high_watermark_checkpoint", "In replication-offset-checkpoint.", null=True),
        number("recovery_point", "In recovery-point-offset-checkpoint.", null=True),
        json_value("damaged_offsets", "Ranges of offsets in damaged batches, as [first, last]."),
        flag("in_isr", "Whether the metadata has it in the ISR.", null=True),
        flag("in_elr", "Whether the metadata has it in the ELR.", null=True),
        text("may_lead", "isr, elr, last_known_leader, unclean or no."),
        text("why_not", "Why it cannot be elected.", null=True),
    ),
)
REPLICAS = RowType(
    "replicas",
    "A partition: its state in the metadata, and a comparison of its replicas.",
    (
        _TOPIC,
        _PARTITION,
        json_value("replicas", "The brokers."),
        number("leader", "The leader; -1 for none.", null=True),
        number("leader_epoch", "Leader epoch.", null=True),
        number("partition_epoch", "Partition epoch.", null=True),
        json_value("isr", "In-sync replicas (ISR)."),
        json_value("eligible_leader_replicas", "Eligible leader replicas (ELR)."),
        json_value("last_known_elr", "Last known leader."),
        number("min_insync_replicas", "min.insync.replicas.", null=True),
        flag("unclean_leader_election_enable", "unclean.leader.election.enable.", null=True),
        text("metadata_from", "The directory of the metadata log that was used.", null=True),
        text("verdict", "identical, `behind`, diverged, damaged, empty or foreign."),
        number("diverged_at", "First offset at which replicas hold different records.", null=True),
        json_value("branches", "Groups of replicas that agree: brokers, latest_epoch, end."),
        json_value("evidence", "Signs of lost data on a disk, as sentences."),
    ),
)
START_ORDER = RowType(
    "start_order",
    "Predicted outcome for a partition if brokers are started in an order.",
    (
        _TOPIC,
        _PARTITION,
        json_value("order", "Broker ids in turn; the text as given if it is not a plain list."),
        flag("unclean", "Whether it includes an unclean election."),
        number("leader", "The leader at the end; null if the partition is offline.", null=True),
        text(
            "elected_from",
            "isr, elr, last_known_leader or unclean; null if the leader is unknown.",
            null=True,
        ),
        number(
            "log_end_offset", "Its log end offset; null if the partition is offline.", null=True
        ),
        json_value("lost_offsets", "Ranges of offsets that are lost, as [first, last]."),
        json_value(
            "lost_acknowledged_at_least",
            "Those below the greatest high watermark in a checkpoint.",
        ),
        json_value(
            "returning_offsets",
            "Ranges of offsets whose records return although another branch replaced them.",
        ),
        flag("certain", "Whether the disks determine the outcome; false if it depends on timing."),
        json_value("alternatives", "Possible outcomes: leader, log_end_offset."),
    ),
)
