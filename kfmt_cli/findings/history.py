"""Findings from checking a partition's history, by itself and against the files next to it."""

from __future__ import annotations

from kfmt_cli.findings.finding import error, note, warning

SEQUENCE_GAP = warning(
    "producer-sequence-gap",
    "A producer's sequence numbers skip between two batches, although no offset is missing "
    "between them.",
    "Batches in between were lost before they reached the log, or the broker had expired the "
    "producer, as it does after a day without a batch.",
)
SEQUENCE_REPEATED = warning(
    "producer-sequence-repeated",
    "A batch repeats sequence numbers that its producer already used.",
    "The same records may be in the log twice. A broker that has expired a producer accepts any "
    "sequence number from it.",
)
PRODUCER_EPOCH_BACK = warning(
    "producer-epoch-back",
    "A batch has a lower producer epoch than an earlier batch from the same producer.",
    "Brokers reject such a batch from a client; in a log, it means producer state was lost.",
)
MARKER_ALONE = note(
    "transaction-marker-alone",
    "A transaction marker has no matching records in this log.",
    "Normal if the transaction wrote nothing to this partition, or if its records were compacted "
    "away.",
)
TRANSACTION_OPEN = note(
    "transaction-open",
    "A transaction is still open at the end of the log.",
    "read_committed consumers wait for it. Its producer or its coordinator will end it.",
)
TRANSACTION_HANGING = warning(
    "transaction-hanging",
    "A transaction has been open longer than any transaction timeout allows.",
    "read_committed consumers stop at its first offset, and so does the log cleaner. On a "
    "running cluster, end it with kafka-transactions.sh find-hanging and abort.",
)
TRANSACTION_MIXED = error(
    "transaction-mixed",
    "A producer wrote a non-transactional batch while it had a transaction open.",
    "Copy the directory first. A healthy replica has no such batch.",
    after_crash="The broker does not start if it rebuilds producer state from this batch.",
    after_clean_shutdown=(
        "If a newer producer snapshot exists, the broker leaves the log unchanged."
    ),
)
LEADER_EPOCH_BACK = warning(
    "leader-epoch-back",
    "A batch has a lower leader epoch than an earlier batch.",
    "Batches from two leaders were mixed. Compare this replica with another using kfmt diff.",
)
LEADER_EPOCH_CONTRADICTED = warning(
    "leader-epoch-contradicted",
    "The leader epoch in a batch contradicts leader-epoch-checkpoint.",
    "A follower that asks for the end offset of this epoch gets a wrong answer.",
)
DELETED_RECORDS_BACK = warning(
    "deleted-records-back",
    "Records below the first leader epoch: they had been deleted, and are served again.",
    "A broker that is killed may forget a DeleteRecords request of its last minute, because the "
    "log start offset was not in its checkpoint yet. If they must stay deleted, send the request "
    "again after the start.",
)
SNAPSHOT_CONTRADICTED = warning(
    "snapshot-contradicted",
    "A producer snapshot contradicts the log before it.",
    "After a clean shutdown, the broker trusts the newest snapshot. With the broker stopped, "
    "delete the snapshots; it then rebuilds them from the log.",
)
LOG_START_ABOVE_END = error(
    "log-start-above-end",
    "The log start offset in log-start-offset-checkpoint is beyond the log end offset.",
    "Copy the directory first. If you remove the partition's line from that file, the log starts "
    "at its first segment.",
    on_start="The broker deletes every segment of the partition.",
)
CHECKPOINT_ABOVE_END = warning(
    "checkpoint-above-end",
    "A checkpoint has an offset beyond the partition's log end offset.",
    "The log was longer when the checkpoint was written; records have been lost or deleted since.",
)
CHECKPOINT_WITHOUT_PARTITION = note(
    "checkpoint-without-partition",
    "A checkpoint lists partitions that have no directory here.",
    "They were deleted or moved, or only some directories were copied.",
)
OFFSETS_LOST = error(
    "offsets-lost",
    "Offsets are already missing from the log, as other files of the partition prove.",
    "If the files were copied while a broker ran, its disk has these records: copy them again, the "
    "checkpoints first. Otherwise only a replica or a backup has them. Copy the directory before a "
    "broker starts on it: the broker deletes indexes that have no log, and rewrites checkpoints "
    "and snapshots.",
)
LEFT_OVER_FILE = note(
    "left-over-file",
    "A leftover file: a broker had finished with it, or had not finished writing it.",
    "No action needed.",
    on_start="The broker deletes it.",
)
OWNER_CONTRADICTED = error(
    "owner-contradicted",
    "meta.properties names another broker than the metadata log.",
    "Disks of two brokers may be mixed up: compare node.id and directory.id of each broker's "
    "meta.properties, and start each broker on its own disks. If the broker would rename "
    "partitions to -stray, this is the cause.",
)
REPLICA_MISSING = error(
    "replica-missing",
    "The metadata log assigns a replica to this log directory, but its directory is missing.",
    "Restore the directory before the broker starts. Otherwise, the broker creates an empty log in "
    "its place; if that becomes the leader, the other replicas are truncated to its end and lose "
    "their records.",
)
REPLICA_MOVING = note(
    "replica-moving",
    "A replica is being moved here from another log directory.",
    "The broker copies what is missing, then renames this directory and deletes the one it "
    "replaces. If both are needed, copy them before a broker starts.",
)
PARTITION_TWICE = error(
    "partition-twice",
    "The same partition exists in two log directories.",
    "Compare them with kfmt diff, then move one of them out of its log directory.",
)
PARTITION_SET_ASIDE = error(
    "partition-set-aside",
    "The broker will not serve this partition, although its records are here.",
    "To bring these records back into the topic: on a stopped broker that hosts the partition, "
    "set the topic id in partition.metadata to the one in the metadata log; kfmt state shows "
    "both. If the topic was deleted, no action is needed.",
)
START_FAILS = error(
    "start-fails",
    "A broker does not start with this directory.",
    "The message names the file that stops it.",
)
