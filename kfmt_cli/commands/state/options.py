"""Options of state."""

from __future__ import annotations

import click

from kfmt_cli.cli import completion
from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, paths_argument


@grouped_command(name="state", short_help="Show groups, offsets and metadata from internal topics.")
@paths_argument
@click.option(
    "--at-offset",
    type=click.IntRange(min=0),
    help="Show the state as of this offset, inclusive. Needs a single partition.",
)
@click.option(
    "--since-offset",
    type=click.IntRange(min=0),
    help="Show only changes after this offset, with old values.",
)
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
@click.option(
    "--of-topic",
    shell_complete=completion.complete_topics,
    help="Name of the internal topic, if the directory is named differently.",
)
@click.option(
    "--show-values",
    is_flag=True,
    help="Show the values of all connector settings, which may be secrets.",
)
@common_options("wide", "format", "color", "strict", "max-findings", "max-decompressed")
def state(
    paths: tuple[str, ...],
    at_offset: int | None,
    since_offset: int | None,
    group: str | None,
    topic: str | None,
    of_topic: str | None,
    show_values: bool,
    common: CommonOptions,
) -> None:
    """Show the current state held in internal topics: consumer groups and committed offsets,
    transactional ids, cluster metadata, share groups and remote segments, as well as the topics of
    Kafka Connect, MirrorMaker and schema registries.

    Records are replayed the way a broker loads the topic: the last record per key wins, tombstones
    delete, and transactional records count once committed. For metadata, the newest snapshot is
    loaded and the log is replayed on top. Secrets are hidden, as are all values of connector
    settings not known to be harmless. PATH is a partition of an internal
    topic, or a log directory that contains some. Group lag is shown if the consumed partitions are
    in the same log directory.

    Records that compaction has already removed are gone, even with --at-offset.

    \b
    Examples:
      kfmt state sample_segments/kafka-3.9.1-broker1/__consumer_offsets-1
      kfmt state sample_segments/kafka-3.9.1-broker1 --topic orders
      kfmt state sample_segments/kafka-3.9.1-broker1/__cluster_metadata-0 --since-offset 500
      kfmt state sample_segments/kafka-3.9.1-broker1/__transaction_state-0 --json
      kfmt state sample_segments/kafka-3.9.1-connect/connect-status-0
    """
    from kfmt_cli.commands.state.command import StateCommand, StateSelection

    run = common.start_run()
    selection = StateSelection(at_offset, since_offset, group, topic, of_topic, show_values)
    StateCommand(run, selection, common.decompression_limit).show_paths(paths)
