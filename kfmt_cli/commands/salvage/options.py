"""Options of salvage."""

from __future__ import annotations

from kfmt_cli.options.common import (
    InputOptions,
    index_interval_option,
    require_topic_name,
    topic_filter_option,
)
from kfmt_cli.options.declaration import argument, command_options, option
from kfmt_cli.options.parameter_types import parse_input_path, parse_literal_path
from kfmt_cli.options.selection import commit_unknown_option


@command_options(
    "salvage",
    "Copy every undamaged batch into new logs.",
    common=("lists_all", "format_", "table", "color", "jobs", "max_decompressed"),
    writes_files=True,
)
class SalvageOptions(InputOptions):
    """Copy every undamaged batch of damaged logs into new logs, byte for byte.

    SRC is a log, a partition directory or a log directory and is never modified. DST must not
    exist. A batch is kept if its checksum matches and all of its records can be read. Batches are
    placed by their offsets, whichever log they come from: a renamed log, one that overlaps another,
    or a completed .swap file. Batches whose offsets conflict with the rest go into the partition's
    contradicting directory. Everything dropped is listed with its bytes and missing offsets. Bytes
    that the disk cannot read, and damaged chunks of tiered storage, are reported and skipped; the
    exit code is then 3. A damaged transaction marker is rewritten if its remains or the transaction
    index show the outcome; otherwise the transaction is aborted. Indexes and producer snapshots are
    rebuilt. meta.properties, partition.metadata, leader epochs and log start offsets are copied if
    undamaged; other checkpoints are not. The exit code is 1 if anything was damaged.

    --records also recovers the readable records of damaged batches, and of an uncompressed one that
    the end of the file truncates, re-encoded as magic 2. Because no checksum confirms them, each
    gets an extra header, kfmt.salvaged, with the finding's code. Transactional records are kept
    only if an earlier undamaged batch names their producer.

    --as restores under another name: create the topic, stop the broker, and copy the directories
    over the new ones, whose partition.metadata has the new topic's id.

    --deleted brings back deleted topics and segments under their former names, without log start
    offsets; if the topic exists again, its deleted partitions go into the directory deleted.

    \b
    Examples:
      kfmt salvage damaged_segments/flipped-bit-0 DST
      kfmt salvage damaged_segments DST --records --json
      kfmt salvage sample_segments/kafka-3.9.1-broker1/orders-0 DST --as restored
    """

    source: str = argument("SRC", type=parse_input_path)
    destination: str = argument("DST", type=parse_literal_path)
    records: bool = option(
        default=False,
        help="Also keep readable records of damaged batches, re-encoded and marked with a header.",
    )
    deleted: bool = option(
        default=False,
        help="Also copy deleted data that a broker has not removed yet: directories marked -delete "
        "and logs that end with .deleted.",
    )
    topic: str | None = option(
        "--as",
        default=None,
        metavar="TOPIC",
        help="Write SRC, partitions of one topic, under another topic's name: TOPIC-PARTITION in "
        "DST, without partition.metadata and log start offsets.",
    )
    topics: tuple[str, ...] = topic_filter_option()
    commit_unknown: bool = commit_unknown_option()
    index_interval_bytes: int = index_interval_option("The topic's index.interval.bytes.")

    def __post_init__(self) -> None:
        require_topic_name("--as", self.topic)
