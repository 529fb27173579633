"""Options of verify-crc."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, layout_option, paths_argument


@grouped_command(name="verify-crc", short_help="Check the structure and checksum of every batch.")
@paths_argument
@click.option(
    "--deep",
    is_flag=True,
    help="Also decompress and decode every record, and compare counts, offsets and timestamps.",
)
@layout_option
@common_options(
    "all", "notes", "wide", "format", "color", "strict", "max-findings", "jobs", "max-decompressed"
)
def verify_crc(
    paths: tuple[str, ...],
    deep: bool,
    layout: str | None,
    common: CommonOptions,
) -> int:
    """Check the structure and checksum of every batch.

    Uses CRC-32C for magic 2, and CRC-32 for magic 0 and 1, both outer and inner. Continues past
    damage. Shows the stored and computed checksum of each bad batch, one line per file, and a
    summary.

    \b
    Examples:
      kfmt verify-crc sample_segments/kafka-2.8.2
      kfmt verify-crc sample_segments/kafka-3.9.1-broker1/orders-0 --deep
      kfmt verify-crc damaged_segments --format json
    """
    from kfmt_cli.checks.log.checker import LogChecker
    from kfmt_cli.commands.verify_crc.command import LOG_RESULT, VerifyCrcCommand

    run = common.start_run(LOG_RESULT, shows_findings=True)
    if layout is not None:
        from kfmt_cli.commands.verify_crc.command import check_as_kind
        from kfmt_cli.disk.kinds.notes_v0 import NOTES_LAYOUTS

        return check_as_kind(run, NOTES_LAYOUTS[layout][0], paths)
    log_checker = LogChecker(deep, common.decompression_limit, common.jobs)
    task = VerifyCrcCommand(log_checker, common.jobs, common.max_findings)
    task.skipped_by_kind = run.summary.skipped_counts
    return run.run_task(task, paths)
