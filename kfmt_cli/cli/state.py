"""state: what internal topics say now."""

from __future__ import annotations

import click

from kfmt_cli.cli import completion
from kfmt_cli.cli.options import (
    Common,
    color,
    common,
    max_decompressed,
    max_findings,
    output_format,
    paths,
    strict,
    wide,
)


@click.command(name="state", short_help="Show groups, offsets and metadata of internal topics.")
@paths
@click.option(
    "--at-offset",
    type=click.IntRange(min=0),
    help="As it was at this offset, with the record there included; of one partition.",
)
@click.option(
    "--since-offset",
    type=click.IntRange(min=0),
    help="Show only what changed after this offset, with the old values.",
)
@click.option("--group", help="Only what is about this group.")
@click.option("--topic", help="Only what is about this topic.")
@click.option(
    "--of-topic",
    shell_complete=completion.topics,
    help="Name of the internal topic, if the directory is not named after it.",
)
@common(wide, output_format, color, strict, max_findings, max_decompressed)
def state(
    paths: tuple[str, ...],
    at_offset: int | None,
    since_offset: int | None,
    group: str | None,
    topic: str | None,
    of_topic: str | None,
    common: Common,
) -> int:
    """Show what internal topics say now: groups and their committed offsets, transactional ids,
    the cluster's metadata, share groups, segments in remote storage; and what Kafka Connect,
    MirrorMaker and schema registries keep in theirs.

    The records are replayed as a broker does that loads the topic: the last one counts, tombstones
    take away, and transactions count when they are committed. Metadata is the newest snapshot and
    the log after it. Secrets are not shown. PATH is a partition of an internal topic, or a log
    directory with such partitions; the lag of a group is shown where the logs are in the same log
    directory.

    In a compacted topic, what was removed is not known any more, also at an earlier offset.

    \b
    Examples:
      kfmt state sample_segments/kafka-3.9.1-broker1/__consumer_offsets-1
      kfmt state sample_segments/kafka-3.9.1-broker1 --topic orders
      kfmt state sample_segments/kafka-3.9.1-broker1/__cluster_metadata-0 --since-offset 500
      kfmt state sample_segments/kafka-3.9.1-broker1/__transaction_state-0 --json
      kfmt state sample_segments/kafka-3.9.1-connect/connect-status-0
    """
    from kfmt_cli.commands.state import ShowState, Wanted

    run = common.run()
    wanted = Wanted(at_offset, since_offset, group, topic, of_topic)
    ShowState(run, wanted, common.limit).paths(paths)
    return run.host.exit_code
