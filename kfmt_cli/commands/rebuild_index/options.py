"""Options of rebuild-index."""

from __future__ import annotations

import click

from kfmt_cli.broker.defaults import DEFAULT_PRODUCER_ID_EXPIRATION_MS
from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    ByteSizeType,
    CommonOptions,
    common_options,
    parse_literal_path,
    private_key_option,
)


@grouped_command(name="rebuild-index", short_help="Rebuild indexes as broker recovery does.")
@private_key_option
@click.argument("paths", nargs=-1, required=True, metavar="LOG... DST", type=parse_literal_path)
@click.option(
    "--in-place",
    is_flag=True,
    help="Replace the files next to the logs (omit DST); old files are kept as *.old.",
)
@click.option(
    "--index-interval-bytes",
    type=ByteSizeType(),
    help="The topic's index.interval.bytes. [default: from the metadata log next to the partition, "
    "else 4096]",
)
@click.option(
    "--producer-id-expiration-ms",
    type=click.IntRange(min=0),
    help="The broker's producer.id.expiration.ms: producers idle for longer are omitted from "
    f"snapshots. [default: {DEFAULT_PRODUCER_ID_EXPIRATION_MS} for DST; no expiration with "
    "--in-place]",
)
@click.option(
    "--all-files",
    is_flag=True,
    help="With --in-place: also write .txnindex and .snapshot files (DST always gets them).",
)
@click.option(
    "--as-started",
    is_flag=True,
    help="With DST: write the files that a start after a crash leaves; it truncates a damaged log "
    "and deletes the segments after it. [default: the indexes of all segments as they are]",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace existing files in DST. With --in-place: proceed even if a broker holds the log "
    "directory, or a log is growing or damaged.",
)
@common_options("format", "color", "strict")
def rebuild_index(
    paths: tuple[str, ...],
    in_place: bool,
    index_interval_bytes: int | None,
    producer_id_expiration_ms: int | None,
    all_files: bool,
    as_started: bool,
    force: bool,
    common: CommonOptions,
) -> None:
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
    from kfmt_cli.commands.rebuild_index.command import REBUILD_RESULT, RebuildIndexCommand
    from kfmt_cli.errors import UsageError

    if not in_place and len(paths) < 2:
        raise UsageError("give LOG... and a DST directory, or use --in-place")
    log_paths, output_directory = (paths, None) if in_place else (paths[:-1], paths[-1])
    if in_place and as_started:
        raise UsageError("--as-started needs DST: with --in-place, the logs would have to change")
    run = common.start_run(REBUILD_RESULT, writes_files=True)
    if producer_id_expiration_ms is None and not in_place:
        producer_id_expiration_ms = DEFAULT_PRODUCER_ID_EXPIRATION_MS
    expired_before_ms = None
    if producer_id_expiration_ms is not None:
        from kfmt_cli.core.times import now_ms

        expired_before_ms = now_ms() - producer_id_expiration_ms
    command = RebuildIndexCommand(
        run, index_interval_bytes, force, all_files, expired_before_ms, as_started
    )
    command.rebuild(log_paths, output_directory)
