"""Options of retention."""

from __future__ import annotations

from pathlib import Path

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    ByteSizeType,
    CommonOptions,
    common_options,
    config_option,
    now_option,
    paths_argument,
)


@grouped_command(short_help="Show why segments are kept, and until when.")
@paths_argument
@click.option("--retention-ms", type=click.IntRange(min=-1), help="retention.ms; -1 for no limit.")
@click.option("--retention-bytes", type=int, help="retention.bytes; -1 for no limit.")
@click.option("--segment-ms", type=click.IntRange(min=1), help="segment.ms.")
@click.option("--segment-bytes", type=ByteSizeType(), help="segment.bytes.")
@click.option("--segment-index-bytes", type=ByteSizeType(), help="segment.index.bytes.")
@click.option("--cleanup-policy", help="cleanup.policy: delete, compact or compact,delete.")
@now_option
@config_option
@common_options("wide", "format", "color")
def retention(
    paths: tuple[str, ...],
    now: int,
    config: Path | None,
    common: CommonOptions,
    **settings: object,
) -> None:
    """Show why each segment is still on disk, when it will be deleted, and when the active segment
    rolls.

    Settings come from the cluster's metadata log if it is in the same log directory; those it lacks
    from a --config file, otherwise they are Kafka's defaults. Options override all of them. Reads
    only indexes, file times and active segments.

    \b
    Examples:
      kfmt retention sample_segments/kafka-3.9.1-broker1/orders-0
      kfmt retention sample_segments/kafka-3.9.1-broker1/orders-0 --retention-ms 604800000
      kfmt retention sample_segments/kafka-3.9.1-broker1/orders-0 --retention-bytes 100000 --json
    """
    from kfmt_cli.commands.retention.command import RetentionCommand
    from kfmt_cli.commands.settings_resolver import TopicSettingsResolver

    RetentionCommand(
        common.start_run(), TopicSettingsResolver.from_options(config, settings), now
    ).show_paths(paths)
