"""What checks find in the history of a partition, and between it and the files next to it."""

from __future__ import annotations

from kfmt_cli.findings.finding import Severity, code

_error, _warning, _note = Severity.ERROR, Severity.WARNING, Severity.NOTE

SEQUENCE_GAP = code(
    "producer-sequence-gap",
    _warning,
    "A batch of a producer does not follow on the sequence numbers of its last one, although no "
    "offset is missing between them.",
    "Batches between the two were lost before they came into the log, or the broker had forgotten "
    "the producer, as it does after a day without a batch.",
)
SEQUENCE_REPEATED = code(
    "producer-sequence-repeated",
    _warning,
    "A batch of a producer has sequence numbers that an earlier one had.",
    "The same records may be in the log twice. A broker that has forgotten a producer takes its "
    "sequence numbers from anywhere.",
)
PRODUCER_EPOCH_BACK = code(
    "producer-epoch-back",
    _warning,
    "A batch has a lower producer epoch than an earlier one of its producer.",
    "Brokers refuse such a batch from a client; in a log it shows that the state of producers was "
    "lost.",
)
MARKER_ALONE = code(
    "transaction-marker-alone",
    _note,
    "A marker ends a transaction that has no record in the log.",
    "Normal where nothing was written to this partition, or where its records were compacted.",
)
TRANSACTION_OPEN = code(
    "transaction-open",
    _note,
    "A transaction has not ended where the log ends.",
    "Consumers of committed records wait for it; its producer or its coordinator ends it.",
)
TRANSACTION_HANGING = code(
    "transaction-hanging",
    _warning,
    "A transaction has not ended for longer than any transaction may last.",
    "Consumers of committed records get nothing from its first offset on, and the cleaner stops "
    "there. kafka-transactions.sh find-hanging and abort end it on a running cluster.",
)
TRANSACTION_MIXED = code(
    "transaction-mixed",
    _error,
    "A producer has written a batch outside of a transaction while one of its own was open.",
    "Copy the directory before anything else; a whole replica has no such batch.",
    after_crash="The broker does not start if it rebuilds the state of producers from this batch.",
    after_clean_shutdown="The broker keeps the log as it is where a newer snapshot is there.",
)
LEADER_EPOCH_BACK = code(
    "leader-epoch-back",
    _warning,
    "A batch has a lower leader epoch than one before it.",
    "Two leaders' batches were mixed: compare the replica with another one, by kfmt diff.",
)
LEADER_EPOCH_CONTRADICTED = code(
    "leader-epoch-contradicted",
    _warning,
    "The leader epoch of batches is not that which leader-epoch-checkpoint has for their offsets.",
    "A follower that asks where an epoch ended is told a wrong offset.",
)
SNAPSHOT_CONTRADICTED = code(
    "snapshot-contradicted",
    _warning,
    "A producer snapshot says something else of a producer than the log before it.",
    "A broker believes the newest one after a clean shutdown. With the broker stopped, delete the "
    "snapshots: it then builds them from the log.",
)
LOG_START_ABOVE_END = code(
    "log-start-above-end",
    _error,
    "The log start offset in log-start-offset-checkpoint is after the end of the log.",
    "Copy the directory first. Without the partition's line in that file, the log begins at its "
    "first segment.",
    after_crash="The broker deletes every segment of the partition.",
    after_clean_shutdown="The broker deletes every segment of the partition.",
)
CHECKPOINT_ABOVE_END = code(
    "checkpoint-above-end",
    _warning,
    "A checkpoint has an offset for a partition that is after the end of its log.",
    "The log was longer when the checkpoint was written: records were lost or deleted since.",
)
CHECKPOINT_WITHOUT_PARTITION = code(
    "checkpoint-without-partition",
    _note,
    "A checkpoint has offsets of partitions that have no directory here.",
    "They were deleted or moved, or only some directories were copied.",
)
OFFSETS_LOST = code(
    "offsets-lost",
    _error,
    "Offsets that the log had are gone already, as other files of the partition prove.",
    "Only a replica or a backup has them. Copy the directory before a broker starts: it deletes "
    "indexes without a log, and writes checkpoints and snapshots anew.",
)
LEFT_OVER = code(
    "left-over-file",
    _note,
    "A file that a broker was done with, or that it had not finished.",
    "Nothing has to be done.",
    after_crash="The broker deletes it.",
    after_clean_shutdown="The broker deletes it.",
)
PARTITION_TWICE = code(
    "partition-twice",
    _error,
    "A partition has a directory in two of the log directories.",
    "Compare the two by kfmt diff, and move one of them out of the log directory.",
)
PARTITION_SET_ASIDE = code(
    "partition-set-aside",
    _error,
    "A broker does not serve a partition whose records are here.",
    "If the topic is to have these records: on a broker that has the partition, stopped, make "
    "partition.metadata say the topic id that the metadata log has; kfmt state shows both. If the "
    "topic was deleted, nothing has to be done.",
)
START_FAILS = code(
    "start-fails",
    _error,
    "A broker does not come up with this directory.",
    "The reason says which file it trips over.",
)
