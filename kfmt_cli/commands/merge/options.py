"""Options of merge."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    CommonOptions,
    common_options,
    index_interval_option,
    parse_literal_path,
    paths_argument,
)


@grouped_command(short_help="Merge damaged replicas into the best log of each partition.")
@paths_argument
@click.option("--to", required=True, metavar="DST", type=parse_literal_path, help="New directory.")
@click.option(
    "--branch",
    type=int,
    metavar="BROKER",
    help="If replicas have diverged, take the branch of this broker's replica.",
)
@click.option("--topics", default="", help="Only these topics, comma-separated.")
@index_interval_option("The topics' index.interval.bytes.")
@common_options("format", "color", "jobs", "max-decompressed")
def merge(
    paths: tuple[str, ...],
    to: str,
    branch: int | None,
    topics: str,
    index_interval_bytes: int,
    common: CommonOptions,
) -> None:
    """Merge the replicas of each partition into its best log: every offset comes from a replica
    whose batch is undamaged. Name the log directories of all brokers, or copies.

    The longest undamaged replica is copied byte for byte; damaged or missing batches come from the
    others, checked by checksum, offset and leader epoch. Of a compacted topic, offsets between its
    batches stay missing, as the log cleaner removed them. Replicas that have diverged are never
    mixed: such a partition is written only with --branch. DST has a directory for each partition,
    with indexes, producer snapshots, leader epochs and the topic id, ready to replace the
    directory on the broker that is started first; see kfmt replicas. Inputs are never modified.
    The exit code is 1 if an offset is missing from all replicas or a partition was not written.

    \b
    Examples:
      kfmt merge sample_segments/kafka-3.9.1-broker1 sample_segments/kafka-3.9.1-broker2 --to DST
      kfmt merge sample_segments/kafka-3.9.1-broker1 --to DST --topics orders --json
    """
    from kfmt_cli.commands.merge.command import MergeCommand
    from kfmt_cli.execution.read_request import parse_name_list

    run = common.start_run(writes_files=True)
    topic_names = frozenset(parse_name_list(topics))
    command = MergeCommand(
        run, common.jobs, common.decompression_limit, index_interval_bytes, branch, topic_names
    )
    command.merge(paths, to)
