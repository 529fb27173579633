"""Options of replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, paths_argument, validate_topic_name
from kfmt_cli.cli.selection_options import add_bounds_options
from kfmt_cli.errors import UsageError


@grouped_command(name="replay", short_help="Send records from disks to a live cluster.")
@paths_argument
@click.option("--bootstrap-server", metavar="HOST:PORT", help="Brokers, comma-separated.")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@add_bounds_options
@click.option(
    "--as",
    "as_topic",
    metavar="TOPIC",
    callback=validate_topic_name,
    help="Send to this topic instead.",
)
@click.option(
    "--by-key",
    is_flag=True,
    help="Choose partitions by key, like Java's default partitioner. Records without a key keep "
    "theirs, modulo the number of partitions. [default: keep the partition]",
)
@click.option(
    "--groups",
    is_flag=True,
    help="Also commit the offsets of the groups in __consumer_offsets, translated to the new ones.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record progress in FILE; another run with the same FILE continues from there.",
)
@click.option(
    "--rate", type=click.IntRange(min=1), metavar="N", help="At most N records per second."
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent, without a cluster.")
@click.option(
    "--producer-config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Java properties file with librdkafka's settings, for security and compression.",
)
@common_options("format", "color", "strict", "max-findings", "max-decompressed")
def replay(
    paths: tuple[str, ...],
    bootstrap_server: str | None,
    dry_run: bool,
    common: CommonOptions,
    **replay_options: Any,
) -> None:
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
    from importlib.util import find_spec

    from kfmt_cli.commands.replay.command import ReplayCommand, ReplayOptions

    if bootstrap_server is None and not dry_run:
        raise UsageError("give --bootstrap-server HOST:PORT, or --dry-run")
    if not dry_run and find_spec("confluent_kafka") is None:
        raise UsageError("confluent-kafka is not installed: pip install 'kfmt-cli[replay]'")
    options = ReplayOptions(bootstrap_server or "", dry_run=dry_run, **replay_options)
    ReplayCommand(common.start_run(), options, common.decompression_limit).replay_paths(paths)
