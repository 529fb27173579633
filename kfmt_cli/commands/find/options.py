"""Options of find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import Common, common, paths
from kfmt_cli.cli.selection_options import selection
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.selection.select import Asked


@command(name="find", short_help="Find an offset, a timestamp or records.")
@paths
@click.option(
    "--offset", type=click.IntRange(min=0), help="Find the batch and record with this offset."
)
@click.option(
    "--timestamp",
    metavar="TIME",
    help="Find the first record at or after this time: milliseconds, or 2026-11-20T15:24.",
)
@selection
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N matches.")
@common("wide", "format", "color", "strict", "max-findings", "max-decompressed")
def find(
    paths: tuple[str, ...],
    offset: int | None,
    timestamp: str | None,
    asked: Asked,
    limit: int | None,
    common: Common,
) -> None:
    """Find the segment, batch and byte of an offset, a timestamp or matching records.

    Offsets and timestamps are looked up in the indexes; if an index is unusable, kfmt says so and
    scans the log from the start. PATH is a log, a partition or a log directory; every partition is
    searched. With --producer-id alone, finds batches.

    \b
    Examples:
      kfmt find sample_segments/kafka-3.9.1-broker1/orders-0 --offset 700
      kfmt find sample_segments/kafka-3.9.1-broker1/orders-0 --timestamp 2023-11-14T22:20
      kfmt find sample_segments/kafka-3.9.1-broker1/orders-0 --key customer-7 --limit 3
      kfmt find sample_segments/kafka-3.9.1-broker1 --producer-id 1000 --limit 5 --json
    """
    from kfmt_cli.commands.find.command import Find
    from kfmt_cli.core.times import milliseconds

    n_given = sum((offset is not None, timestamp is not None, bool(asked)))
    if n_given > 1:
        raise UsageError("--offset, --timestamp and record filters cannot be combined")
    if not n_given:
        raise UsageError("give --offset, --timestamp or a record filter such as --key")
    at = None if timestamp is None else milliseconds("--timestamp", timestamp)
    Find(common.run(), offset, at, asked, limit, common.limit).paths(paths)
