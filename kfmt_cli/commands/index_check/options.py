"""Options of index-check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    CommonOptions,
    common_options,
    index_interval_option,
    kafka_version_option,
    paths_argument,
)
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.broker.version import PredictedVersion


@grouped_command(name="index-check", short_help="Check indexes against their log.")
@paths_argument
@click.option("--lookup-offset", type=int, help="Show how a broker looks up this offset.")
@click.option(
    "--lookup-timestamp",
    type=int,
    help="Show how a broker looks up this timestamp (ms since 1970).",
)
@kafka_version_option
@index_interval_option("The broker's setting, for notes about gaps between entries.")
@common_options(
    "all", "notes", "wide", "format", "color", "strict", "max-findings", "jobs", "max-decompressed"
)
def index_check(
    paths: tuple[str, ...],
    lookup_offset: int | None,
    lookup_timestamp: int | None,
    kafka: PredictedVersion | None,
    index_interval_bytes: int,
    common: CommonOptions,
) -> None:
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
    from kfmt_cli.broker.log_reading.lookup import OFFSET_COLUMN, TIMESTAMP_COLUMN
    from kfmt_cli.checks.index.checker import (
        DAMAGED_LOGS,
        INDEX_RESULT,
        MISSING_INDEXES,
        IndexChecker,
    )
    from kfmt_cli.commands.index_check.command import IndexCheckCommand, show_lookups

    if lookup_offset is not None and lookup_timestamp is not None:
        raise UsageError("use only one of --lookup-offset and --lookup-timestamp")
    run = common.start_run(INDEX_RESULT, shows_findings=True)
    for target_column, target in (
        (OFFSET_COLUMN, lookup_offset),
        (TIMESTAMP_COLUMN, lookup_timestamp),
    ):
        if target is not None:
            show_lookups(run, paths, target_column, target, kafka)
            return
    checker = IndexChecker(common.decompression_limit, index_interval_bytes, common.max_findings)
    command = IndexCheckCommand(checker, common.jobs, run.summary.skipped_counts)
    for count_name in (MISSING_INDEXES, DAMAGED_LOGS):
        run.summary.other_counts[count_name] = 0
    run.run_task(command, paths)
