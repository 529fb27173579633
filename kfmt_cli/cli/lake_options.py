"""Options for exported files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kfmt_cli.cli.options import Size

F = TypeVar("F", bound=Callable[..., Any])


def lake(function: F) -> F:
    """Add the options for the size, grouping and columns of files."""
    for decorate in (
        click.option(
            "--target-file-bytes",
            type=Size(),
            default="128M",
            show_default=True,
            help="Maximum segment bytes per output file.",
        ),
        click.option(
            "--partition-by",
            type=click.Choice(["none", "topic", "topic,date"]),
            default="none",
            show_default=True,
            help="Partition the output into by_topic=… directories, with by_date=… (UTC) under "
            "them.",
        ),
        click.option(
            "--one-file-per-partition",
            is_flag=True,
            help="Never mix partitions in one file, however small.",
        ),
        click.option(
            "--schema",
            type=click.Choice(["kfmt", "kafka", "kafka-headers"]),
            default="kfmt",
            show_default=True,
            help="Record columns: kfmt's own, or exactly those of Spark's Kafka source.",
        ),
    ):
        function = decorate(function)
    return function
