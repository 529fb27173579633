"""Options of verify-crc."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import Common, common, layout, paths


@command(name="verify-crc", short_help="Check the structure and checksum of every batch.")
@paths
@click.option(
    "--deep",
    is_flag=True,
    help="Also decompress and decode every record, and compare counts, offsets and timestamps.",
)
@layout
@common(
    "all", "notes", "wide", "format", "color", "strict", "max-findings", "jobs", "max-decompressed"
)
def verify_crc(
    paths: tuple[str, ...],
    deep: bool,
    layout: str | None,
    common: Common,
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
    from kfmt_cli.checks.log.verifier import Verifier
    from kfmt_cli.commands.verify_crc.command import LOG_RESULT, Verify

    run = common.run(LOG_RESULT, finds=True)
    if layout is not None:
        from kfmt_cli.commands.verify_crc.command import verify_kind
        from kfmt_cli.disk.kinds.notes import LAYOUTS

        return verify_kind(run, LAYOUTS[layout][0], paths)
    verifier = Verifier(deep, common.limit, common.jobs)
    task = Verify(verifier, common.jobs, common.max_findings)
    task.passed_over = run.summary.passed_over
    return run.whole(task, paths)
