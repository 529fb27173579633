"""Options of find."""

from __future__ import annotations

import click

from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import ALL_REPLICAS_HELP, TopicFilterOptions
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.parameter_types import TimeType
from kfmt_cli.options.selection import RecordSelectionOptions


@command_options(
    "find",
    "Find an offset, a timestamp or records.",
    common=(
        *("wide", "format_", "table", "color", "strict"),
        *("given_findings", "max_decompressed"),
    ),
)
class FindOptions(RecordSelectionOptions, TopicFilterOptions):
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

    offset: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="Find the batch and record with this offset.",
    )
    timestamp: int | None = option(
        default=None,
        type=TimeType(),
        metavar="TIME",
        help="Find the first record at or after this time: milliseconds, or 2026-11-20T15:24.",
    )
    limit: int | None = option(
        *("-n", "--limit"),
        default=None,
        type=click.IntRange(min=1),
        metavar="N",
        help="Stop after N matches.",
    )

    all_replicas: bool = option(default=False, help=ALL_REPLICAS_HELP)

    def __post_init__(self) -> None:
        n_search_terms = sum(
            (self.offset is not None, self.timestamp is not None, bool(self.selection_options))
        )
        if n_search_terms > 1:
            raise UsageError("--offset, --timestamp and record filters cannot be combined")
        if not n_search_terms:
            raise UsageError("give --offset, --timestamp or a record filter such as --key")
