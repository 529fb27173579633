"""Options of index-check."""

from __future__ import annotations

from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import (
    FINDING_OPTIONS,
    TopicFilterOptions,
    format_option,
    index_interval_option,
    kafka_version_option,
)
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.render.output_formats import FINDING_FORMATS, OUTPUT_FORMATS


@command_options(
    "index-check",
    "Check indexes against their log.",
    common=("table", *FINDING_OPTIONS),
    shows_findings=True,
)
class IndexCheckOptions(TopicFilterOptions):
    """Check .index, .timeindex and .txnindex files against their log.

    The rules hold for every broker version, and for indexes written by leaders, followers, the log
    cleaner and recovery, or preallocated by a running broker, so healthy indexes produce no
    findings. Each finding names the entry, the expected value and the effect on a broker.

    \b
    Examples:
      kfmt index-check sample_segments/kafka-3.9.1-broker2/replicated-0
      kfmt index-check damaged_segments/index-not-at-batch-0
      kfmt index-check sample_segments/kafka-3.9.1-broker1/txn-0 --lookup-offset 500
    """

    format_: str = format_option([*OUTPUT_FORMATS, *FINDING_FORMATS])
    lookup_offset: int | None = option(
        default=None, type=int, help="Show how a broker looks up this offset."
    )
    lookup_timestamp: int | None = option(
        default=None,
        type=int,
        help="Show how a broker looks up this timestamp (ms since 1970).",
    )
    kafka: str | None = kafka_version_option()
    index_interval_bytes: int = index_interval_option(
        "The broker's setting, for notes about gaps between entries."
    )

    def __post_init__(self) -> None:
        if self.lookup_offset is not None and self.lookup_timestamp is not None:
            raise UsageError("use only one of --lookup-offset and --lookup-timestamp")
