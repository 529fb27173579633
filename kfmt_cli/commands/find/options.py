"""Options of find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, paths_argument
from kfmt_cli.cli.selection_options import add_selection_options
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.log.selection.selection import SelectionOptions


@grouped_command(name="find", short_help="Find an offset, a timestamp or records.")
@paths_argument
@click.option(
    "--offset", type=click.IntRange(min=0), help="Find the batch and record with this offset."
)
@click.option(
    "--timestamp",
    metavar="TIME",
    help="Find the first record at or after this time: milliseconds, or 2026-11-20T15:24.",
)
@add_selection_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N matches.")
@common_options("wide", "format", "color", "strict", "max-findings", "max-decompressed")
def find(
    paths: tuple[str, ...],
    offset: int | None,
    timestamp: str | None,
    asked: SelectionOptions,
    limit: int | None,
    common: CommonOptions,
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
    from kfmt_cli.commands.find.command import FindCommand
    from kfmt_cli.core.times import parse_time_ms

    n_search_terms = sum((offset is not None, timestamp is not None, bool(asked)))
    if n_search_terms > 1:
        raise UsageError("--offset, --timestamp and record filters cannot be combined")
    if not n_search_terms:
        raise UsageError("give --offset, --timestamp or a record filter such as --key")
    timestamp_ms = None if timestamp is None else parse_time_ms("--timestamp", timestamp)
    FindCommand(
        common.start_run(), offset, timestamp_ms, asked, limit, common.decompression_limit
    ).search_paths(paths)
