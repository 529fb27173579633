"""Options of replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import (
    PathsOptions,
    require_packages,
    require_topic_name,
    topic_filter_option,
)
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.selection import BoundsOptions, commit_unknown_option


@command_options(
    "replay",
    "Send records from disks to a live cluster.",
    common=("format_", "table", "color", "strict", "given_findings", "max_decompressed"),
)
class ReplayOptions(BoundsOptions, PathsOptions):
    """Send the records of partitions on disks to a live cluster.

    Keys, values, headers and timestamps are kept, and the order within each partition. Only
    committed records are sent: those of aborted and unfinished transactions are skipped, as are
    control records, batches that fail their checksum and Kafka's internal topics. Topics that
    are missing from the cluster are created as described in the newest metadata log given.

    The producer is idempotent. After an interruption, a run with the same --state reads from the
    cluster what has arrived since the last acknowledgement, and sends the rest: each record once,
    as long as no other producer writes the same records to these topics. Without --state, another
    run sends everything again. The cluster's retention applies: it deletes records older than
    retention.ms. Needs pip install 'kfmt-cli[replay]'.

    \b
    Examples:
      kfmt replay sample_segments/kafka-3.9.1-broker1 --topic orders --dry-run
      kfmt replay sample_segments/kafka-3.9.1-broker1/txn-0 --dry-run --from-offset 20 --json
    """

    bootstrap_server: str | None = option(
        default=None, metavar="HOST:PORT", help="Brokers, comma-separated."
    )
    topic: tuple[str, ...] = topic_filter_option()
    as_topic: str | None = option(
        "--as", default=None, metavar="TOPIC", help="Send to this topic instead."
    )
    by_key: bool = option(
        default=False,
        help="Choose partitions by key, like Java's default partitioner. Records without a key "
        "keep theirs, modulo the number of partitions. [default: keep the partition]",
    )
    groups: bool = option(
        default=False,
        help="Also commit the offsets of the groups in __consumer_offsets, translated to the new "
        "ones.",
    )
    commit_unknown: bool = commit_unknown_option()
    state: Path | None = option(
        default=None,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Record progress in FILE; another run with the same FILE continues from there.",
    )
    rate: int | None = option(
        default=None, type=click.IntRange(min=1), metavar="N", help="At most N records per second."
    )
    dry_run: bool = option(default=False, help="Show what would be sent, without a cluster.")
    producer_config: Path | None = option(
        default=None,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Java properties file with librdkafka's settings, for security and compression.",
    )

    def __post_init__(self) -> None:
        require_topic_name("--as", self.as_topic)
        if self.bootstrap_server is None and not self.dry_run:
            raise UsageError("give --bootstrap-server HOST:PORT, or --dry-run")
        if not self.dry_run:
            require_packages("replay", "confluent-kafka")
        if self.groups and self.by_key:
            reason = "--by-key spreads a partition's records, so its offsets have no counterpart"
            raise UsageError(f"--groups cannot be combined with --by-key: {reason}")

    @property
    def resume_options(self) -> dict[str, Any]:
        """The options that must be the same when a replay is resumed, by their names in the state
        file."""
        bounds = self.bounds
        return {
            "as": self.as_topic,
            "by_key": self.by_key,
            "from_offset": bounds.first_offset,
            "to_offset": bounds.last_offset,
            "from_time": bounds.first_time,
            "to_time": bounds.last_time,
        }
