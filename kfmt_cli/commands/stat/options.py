"""Options of stat."""

from __future__ import annotations

import click

from kfmt_cli.errors import UsageError, unknown_name_error
from kfmt_cli.options.common import ALL_REPLICAS_HELP, TopicFilterOptions
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.parameter_types import ByteSizeType
from kfmt_cli.options.selection import RecordSelectionOptions

STAT_LEVELS = BY_TOPIC, BY_PARTITION, BY_SEGMENT = "topic", "partition", "segment"
SORT_BY_NAME = "name"


@command_options(
    "stat",
    "Show log sizes, counts, codecs and timestamps.",
    common=("wide", "format_", "table", "color", "jobs", "max_decompressed"),
)
class StatOptions(RecordSelectionOptions, TopicFilterOptions):
    """Show log statistics: bytes, batches, records, codecs, timestamps and producers.

    Reads batch headers only and does not verify checksums; use verify-crc for that. Without --deep,
    a compressed magic 0 or 1 wrapper counts as one record. With record filters such as --key,
    counts the matching records, and the bytes of the batches that contain them.

    \b
    Examples:
      kfmt stat sample_segments/kafka-3.9.1-broker1
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --by segment --histogram
      kfmt stat sample_segments/kafka-3.9.1-broker1 --by topic --sample 1M
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --plot
      kfmt stat sample_segments/kafka-3.9.1-broker1/orders-0 --deep --what-if zstd --what-if gzip:9
    """

    by: str = option(
        default=BY_PARTITION, type=click.Choice(STAT_LEVELS), help="What each row represents."
    )
    sort: str = option(
        default=SORT_BY_NAME,
        type=click.Choice([SORT_BY_NAME, "bytes", "records"]),
        help="Sort rows by this, largest first.",
    )
    deep: bool = option(
        default=False,
        help="Also read records: null and empty keys, tombstones, compression ratio.",
    )
    histogram: bool = option(default=False, help="Plot batch sizes: records and bytes per batch.")
    plot: bool = option(default=False, help="Plot writes over time, codecs and batch sizes.")
    what_if: tuple[str, ...] = option(
        default=(),
        metavar="CODEC[:LEVEL]",
        help="Recompress a sample with another codec and show the savings.",
    )
    sample: int | None = option(
        default=None,
        type=ByteSizeType(),
        metavar="SIZE",
        help="Sample this many bytes in total, e.g. 64M, bypassing the broker's page cache, and "
        "extrapolate with error margins.",
    )

    all_replicas: bool = option(default=False, help=ALL_REPLICAS_HELP)

    def __post_init__(self) -> None:
        if self.by not in STAT_LEVELS:
            raise unknown_name_error("level", self.by, STAT_LEVELS)
        selects_records = bool(self.selection_options)
        if selects_records and (self.deep or self.what_if):
            raise UsageError(
                "--deep and --what-if need whole batches and cannot be combined with record filters"
            )
        if self.sample is not None and (selects_records or self.deep or self.what_if or self.plot):
            raise UsageError(
                "--sample reads batch headers only and cannot be combined with --plot, with record "
                "filters or with options that read records"
            )
