"""Options of compaction."""

from __future__ import annotations

from pathlib import Path

import click

from kfmt_cli.broker.defaults import DEFAULT_DEDUPE_BUFFER_BYTES
from kfmt_cli.options.common import TopicSettingsOptions, config_option, now_option
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.parameter_types import ByteSizeType


@command_options(
    "compaction",
    "Show what the log cleaner would keep and remove.",
    common=("format_", "table", "color", "given_findings", "max_decompressed"),
)
class CompactionOptions(TopicSettingsOptions):
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

    min_cleanable_ratio: float | None = option(
        default=None,
        type=click.FloatRange(0, 1),
        help="min.cleanable.dirty.ratio; partitions at or below it are not cleaned.",
    )
    delete_retention_ms: int | None = option(default=None, type=int, help="delete.retention.ms.")
    min_compaction_lag_ms: int | None = option(
        default=None, type=int, help="min.compaction.lag.ms."
    )
    max_compaction_lag_ms: int | None = option(
        default=None, type=int, help="max.compaction.lag.ms."
    )
    cleanup_policy: str | None = option(
        default=None, help="cleanup.policy: compact or compact,delete."
    )
    now: int | None = now_option()
    dedupe_buffer_bytes: int = option(
        default=DEFAULT_DEDUPE_BUFFER_BYTES,
        type=ByteSizeType(),
        help="log.cleaner.dedupe.buffer.size per thread; a broker uses 24 bytes per key.",
    )
    config: Path | None = config_option()
    offsets: bool = option(default=False, help="List the offsets that are kept.")
    key: str | None = option(
        default=None,
        help="Show only records with this key: text, or a value prefixed with hex:, base64:, int:, "
        "long:, double: or uuid:.",
    )
