"""Options of compaction."""

from __future__ import annotations

from pathlib import Path

import click

from kfmt_cli.broker.defaults import DEFAULT_DEDUPE_BUFFER_BYTES
from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    ByteSizeType,
    CommonOptions,
    common_options,
    config_option,
    now_option,
    paths_argument,
)
from kfmt_cli.cli.selection_options import parse_bytes_pattern


@grouped_command(short_help="Show what the log cleaner would keep and remove.")
@paths_argument
@click.option(
    "--min-cleanable-ratio",
    type=click.FloatRange(0, 1),
    help="min.cleanable.dirty.ratio; partitions at or below it are not cleaned.",
)
@click.option("--delete-retention-ms", type=int, help="delete.retention.ms.")
@click.option("--min-compaction-lag-ms", type=int, help="min.compaction.lag.ms.")
@click.option("--max-compaction-lag-ms", type=int, help="max.compaction.lag.ms.")
@click.option("--cleanup-policy", help="cleanup.policy: compact or compact,delete.")
@now_option
@click.option(
    "--dedupe-buffer-bytes",
    type=ByteSizeType(),
    default=DEFAULT_DEDUPE_BUFFER_BYTES,
    show_default=True,
    help="log.cleaner.dedupe.buffer.size per thread; a broker uses 24 bytes per key.",
)
@config_option
@click.option("--offsets", is_flag=True, help="List the offsets that are kept.")
@click.option(
    "--key",
    help="Show only records with this key: text, or a value prefixed with hex:, base64:, int:, "
    "long:, double: or uuid:.",
)
@common_options("format", "color", "max-findings", "max-decompressed")
def compaction(
    paths: tuple[str, ...],
    now: int,
    dedupe_buffer_bytes: int,
    config: Path | None,
    offsets: bool,
    key: str | None,
    common: CommonOptions,
    **settings: object,
) -> None:
    """Show what a log cleaner run would keep and remove in each partition. Nothing is changed.

    Shows where the cleaner stopped, how much is dirty, and whether a broker would pick the
    partition. Topics that are not compacted are never cleaned; use --cleanup-policy compact to see
    what would happen. With --key, shows every record of that key: which one is kept, and why the
    others are still there; exits with 1 if there is none.

    \b
    Examples:
      kfmt compaction sample_segments/kafka-3.9.1-broker1/compacted-0
      kfmt compaction sample_segments/kafka-2.8.2/v1-compacted-0 --offsets --json
      kfmt compaction sample_segments/kafka-3.9.1-broker1/compacted-0 --key user-60
    """
    from kfmt_cli.commands.compaction.command import CompactionCommand
    from kfmt_cli.commands.settings_resolver import TopicSettingsResolver

    command = CompactionCommand(
        common.start_run(),
        TopicSettingsResolver.from_options(config, settings),
        now,
        offsets,
        key=None if key is None else parse_bytes_pattern("--key", key),
        cleans_only_picked=settings["min_cleanable_ratio"] is not None,
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        decompression_limit=common.decompression_limit,
    )
    command.show_paths(paths)
