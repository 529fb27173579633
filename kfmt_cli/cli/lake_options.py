"""Options of what exported files are like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kfmt_cli.cli.options import Size

F = TypeVar("F", bound=Callable[..., Any])


def lake(function: F) -> F:
    """How large files are, what is in one, which columns it has."""
    for decorate in (
        click.option(
            "--target-file-bytes",
            type=Size(),
            default="128M",
            show_default=True,
            help="Bytes of segments that become one file; none becomes larger.",
        ),
        click.option(
            "--partition-by",
            type=click.Choice(["none", "topic", "topic,date"]),
            default="none",
            show_default=True,
            help="Directories for the files: by_topic=…, and by_date=… (UTC) in them.",
        ),
        click.option(
            "--one-file-per-partition",
            is_flag=True,
            help="No file has rows of two partitions, however small they are.",
        ),
        click.option(
            "--schema",
            type=click.Choice(["kfmt", "kafka", "kafka-headers"]),
            default="kfmt",
            show_default=True,
            help="Columns of records: kfmt's, or exactly those of Spark's source for Kafka.",
        ),
    ):
        function = decorate(function)
    return function
