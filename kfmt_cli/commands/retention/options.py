"""Options of retention."""

from __future__ import annotations

from pathlib import Path

import click

from kfmt_cli.options.common import TopicSettingsOptions, config_option, now_option
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.parameter_types import ByteSizeType


@command_options(
    "retention",
    "Show why segments are kept, and until when.",
    common=("wide", "format_", "table", "color"),
)
class RetentionOptions(TopicSettingsOptions):
    """Show why each segment is still on disk, when it will be deleted, and when the active segment
    rolls.

    Settings come from the cluster's metadata log if it is in the same log directory, then from a
    --config file, then from Kafka's defaults. Options override all of them. Reads only indexes,
    file times and active segments.

    \b
    Examples:
      kfmt retention sample_segments/kafka-3.9.1-broker1/orders-0
      kfmt retention sample_segments/kafka-3.9.1-broker1/orders-0 --retention-ms 604800000
      kfmt retention sample_segments/kafka-3.9.1-broker1/orders-0 --retention-bytes 100000 --json
    """

    retention_ms: int | None = option(
        default=None, type=click.IntRange(min=-1), help="retention.ms; -1 for no limit."
    )
    retention_bytes: int | None = option(
        default=None, type=int, help="retention.bytes; -1 for no limit."
    )
    segment_ms: int | None = option(default=None, type=click.IntRange(min=1), help="segment.ms.")
    segment_bytes: int | None = option(default=None, type=ByteSizeType(), help="segment.bytes.")
    segment_index_bytes: int | None = option(
        default=None, type=ByteSizeType(), help="segment.index.bytes."
    )
    cleanup_policy: str | None = option(
        default=None, help="cleanup.policy: delete, compact or compact,delete."
    )
    now: int | None = now_option()
    config: Path | None = config_option()
