"""Options of diff."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, parse_input_path, private_key_option


@grouped_command(name="diff", short_help="Compare two replicas of a partition.")
@private_key_option
@click.argument("a", type=parse_input_path)
@click.argument("b", type=parse_input_path)
@common_options("wide", "format", "color", "strict", "max-decompressed")
def diff(
    a: str,
    b: str,
    common: CommonOptions,
) -> None:
    """Compare two replicas of a partition, A and B, or all partitions that two log directories have
    in common, by offsets, leader epochs and checksums.

    Differences caused by retention, by compaction or by a lagging replica are not divergence. If
    replicas hold different records, shows the offset where they diverge, the leader epochs, and
    what exists only on each side; the exit code is then 1.

    \b
    Examples:
      kfmt diff sample_segments/kafka-3.9.1-broker1 sample_segments/kafka-3.9.1-broker2
      kfmt diff sample_segments/kafka-3.9.1-live sample_segments/kafka-3.9.1-broker1 --json
    """
    from kfmt_cli.commands.diff.command import DiffCommand

    DiffCommand(common.start_run(), common.decompression_limit).compare_paths(a, b)
