"""Options of merge."""

from __future__ import annotations

from kfmt_cli.options.common import PathsOptions, index_interval_option, topic_filter_option
from kfmt_cli.options.declaration import command_options, deprecated, option
from kfmt_cli.options.parameter_types import parse_literal_path
from kfmt_cli.options.selection import commit_unknown_option


@command_options(
    "merge",
    "Merge damaged replicas into the best log of each partition.",
    common=("format_", "table", "color", "jobs", "max_decompressed"),
    writes_files=True,
)
class MergeOptions(PathsOptions):
    """Merge the replicas of each partition into its best log: every offset comes from a replica
    whose batch is undamaged. Name the log directories of all brokers, or copies.

    The longest undamaged replica is copied byte for byte; damaged or missing batches come from the
    others, checked by checksum, offset and leader epoch. In a compacted topic, offsets between
    batches stay missing, because the log cleaner removed them. Replicas that have diverged are
    never mixed: such a partition is written only with --branch. DST has a directory for each
    partition, with indexes, producer snapshots, leader epochs and the topic id, ready to replace
    the directory on the broker that is started first; see kfmt replicas. Inputs are never modified.
    The exit code is 1 if an offset is missing from all replicas or a partition was not written.

    \b
    Examples:
      kfmt merge sample_segments/kafka-3.9.1-broker1 sample_segments/kafka-3.9.1-broker2 --to DST
      kfmt merge sample_segments/kafka-3.9.1-broker1 --to DST --topic orders --json
    """

    to: str = option(metavar="DST", type=parse_literal_path, help="New directory.")
    branch: int | None = option(
        default=None,
        type=int,
        metavar="BROKER",
        help="If replicas have diverged, take the branch of this broker's replica.",
    )
    topic: tuple[str, ...] = topic_filter_option()
    topics: str = deprecated("--topics", use="--topic", default="")
    commit_unknown: bool = commit_unknown_option()
    index_interval_bytes: int = index_interval_option("The topics' index.interval.bytes.")
