"""find: in which segment, batch and byte something is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.options import (
    Common,
    color,
    common,
    max_decompressed,
    max_findings,
    output_format,
    paths,
    strict,
    wide,
)
from kfmt_cli.cli.selection_options import selection
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.select import Asked


@click.command(name="find", short_help="Find an offset, a time or records.")
@paths
@click.option("--offset", type=click.IntRange(min=0), help="The batch and the record with it.")
@click.option(
    "--timestamp",
    help="The first record that is not older: milliseconds, or a time such as 2026-11-20T15:24.",
)
@selection
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this many places.")
@common(wide, output_format, color, strict, max_findings, max_decompressed)
def find(
    paths: tuple[str, ...],
    offset: int | None,
    timestamp: str | None,
    asked: Asked,
    limit: int | None,
    common: Common,
) -> int:
    """Find an offset, a time, or records: in which segment, batch and byte they are.

    Offsets and times are looked up through the indexes where these are sound; where they are not,
    that is said, and the log is read from its beginning. PATH is a log, a partition or a log
    directory; of several partitions each is looked in. With --producer-id alone, batches are found.

    \b
    Examples:
      kfmt find sample_segments/kafka-3.9.1-broker1/orders-0 --offset 700
      kfmt find sample_segments/kafka-3.9.1-broker1/orders-0 --timestamp 2023-11-14T22:20
      kfmt find sample_segments/kafka-3.9.1-broker1/orders-0 --key customer-7 --limit 3
      kfmt find sample_segments/kafka-3.9.1-broker1 --producer-id 1000 --limit 5 --json
    """
    from kfmt_cli.commands.find import Find, Sought
    from kfmt_cli.core.times import milliseconds

    if sum((offset is not None, timestamp is not None, bool(asked))) != 1:
        raise UsageError("give --offset, --timestamp, or what records must have, such as --key")
    run = common.run()
    at = None if timestamp is None else milliseconds("--timestamp", timestamp)
    sought = Sought(offset, at, asked)
    Find(run, sought, limit, common.limit).paths(paths)
    return run.host.exit_code
