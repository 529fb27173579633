"""Options for exported files."""

from __future__ import annotations

import click

from kfmt_cli.options.declaration import option, options_class
from kfmt_cli.options.parameter_types import ByteSizeType


@options_class
class LakeFileOptions:
    """Options for the size, grouping and columns of files."""

    schema: str = option(
        default="kfmt",
        type=click.Choice(["kfmt", "kafka", "kafka-headers"]),
        help="Record columns: kfmt's own, or exactly those of Spark's Kafka source.",
    )
    one_file_per_partition: bool = option(
        default=False, help="Never mix partitions in one file, however small."
    )
    partition_by: str = option(
        default="none",
        type=click.Choice(["none", "topic", "topic,date"]),
        help="Partition the output into by_topic=… directories, with by_date=… (UTC) under them.",
    )
    target_file_bytes: int = option(
        default=128 << 20,
        type=ByteSizeType(),
        show_default=False,  # click would show bytes
        help="Maximum segment bytes per output file.  [default: 128M]",
    )
