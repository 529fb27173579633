"""Options of rebuild-index."""

from __future__ import annotations

import click

from kfmt_cli.broker.defaults import DEFAULT_PRODUCER_ID_EXPIRATION_MS
from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import InputOptions
from kfmt_cli.options.declaration import argument, command_options, option
from kfmt_cli.options.parameter_types import ByteSizeType, parse_literal_path


@command_options(
    "rebuild-index",
    "Rebuild indexes as broker recovery does.",
    common=("format_", "table", "color", "strict"),
    writes_files=True,
)
class RebuildIndexOptions(InputOptions):
    """Write the .index, .timeindex, .txnindex and .snapshot files that broker recovery would write.

    The files are byte-identical to those of a broker that finds only the logs and recovers each.
    LOG is a log, a partition directory or a log directory. DST is a directory; several partitions
    get one subdirectory each. Recovery truncates a damaged log, so its indexes end at the damage.
    Stop the broker before --in-place: it refuses a log directory whose .lock is held, a
    log that is growing, and a damaged log, because the existing index may reach beyond the damage.

    \b
    Examples:
      kfmt rebuild-index sample_segments/kafka-3.9.1-broker1/orders-0 DST
      kfmt rebuild-index sample_segments/kafka-3.9.1-broker1/txn-0 DST --index-interval-bytes 1024
    """

    paths: tuple[str, ...] = argument("LOG... DST", nargs=-1, type=parse_literal_path)
    in_place: bool = option(
        default=False,
        help="Replace the files next to the logs (omit DST); old files are kept as *.old.",
    )
    index_interval_bytes: int | None = option(
        default=None,
        type=ByteSizeType(),
        help="The topic's index.interval.bytes. [default: from the metadata log next to the "
        "partition, else 4096]",
    )
    producer_id_expiration_ms: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="The broker's producer.id.expiration.ms: producers idle for longer are omitted from "
        f"snapshots. [default: {DEFAULT_PRODUCER_ID_EXPIRATION_MS} for DST; no expiration with "
        "--in-place]",
    )
    all_files: bool = option(
        default=False,
        help="With --in-place: also write .txnindex and .snapshot files (DST always gets them).",
    )
    as_started: bool = option(
        default=False,
        help="With DST: write the files that a start after a crash leaves; it truncates a damaged "
        "log and deletes the segments after it. [default: the indexes of all segments as they are]",
    )
    force: bool = option(
        default=False,
        help="Replace existing files in DST. With --in-place: proceed even if a broker holds the "
        "log directory, or a log is growing or damaged.",
    )

    def __post_init__(self) -> None:
        if not self.in_place and len(self.paths) < 2:
            raise UsageError("give LOG... and a DST directory, or use --in-place")
        if self.in_place and self.as_started:
            raise UsageError(
                "--as-started needs DST: with --in-place, the logs would have to change"
            )

    @property
    def log_paths(self) -> tuple[str, ...]:
        """The paths of logs."""
        return self.paths if self.in_place else self.paths[:-1]

    @property
    def destination(self) -> str | None:
        """DST; None to write next to the logs."""
        return None if self.in_place else self.paths[-1]

    @property
    def expiration_ms(self) -> int | None:
        """Time after which producers expire, in milliseconds; None for no expiration."""
        if self.producer_id_expiration_ms is None and not self.in_place:
            return DEFAULT_PRODUCER_ID_EXPIRATION_MS
        return self.producer_id_expiration_ms
