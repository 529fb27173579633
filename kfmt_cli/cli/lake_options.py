"""Options for exported files."""

from __future__ import annotations

import click

from kfmt_cli.cli.options import ByteSizeType, CommandFunction, add_options

_LAKE_OPTIONS = (
    click.option(
        "--schema",
        type=click.Choice(["kfmt", "kafka", "kafka-headers"]),
        default="kfmt",
        show_default=True,
        help="Record columns: kfmt's own, or exactly those of Spark's Kafka source.",
    ),
    click.option(
        "--one-file-per-partition",
        is_flag=True,
        help="Never mix partitions in one file, however small.",
    ),
    click.option(
        "--partition-by",
        type=click.Choice(["none", "topic", "topic,date"]),
        default="none",
        show_default=True,
        help="Partition the output into by_topic=… directories, with by_date=… (UTC) under them.",
    ),
    click.option(
        "--target-file-bytes",
        type=ByteSizeType(),
        default="128M",
        show_default=True,
        help="Maximum segment bytes per output file.",
    ),
)


def add_lake_options(function: CommandFunction) -> CommandFunction:
    """Add the options for the size, grouping and columns of files."""
    return add_options(function, _LAKE_OPTIONS)
