"""report: one page of HTML on what is on a disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.options import (
    Common,
    color,
    common,
    config,
    force,
    jobs,
    max_decompressed,
    now,
    optional_paths,
)
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.render.report.page_data import PageData


@click.command(short_help="Write one HTML page on what is on a disk.")
@optional_paths
@click.option("--to", required=True, metavar="FILE", help="The page that is written.")
@click.option("--data", metavar="FILE", help="Also write the page's numbers, as JSON.")
@click.option(
    "--from",
    "of_jobs",
    multiple=True,
    metavar="DIR",
    help="In place of PATH: what kfmt pipeline has written to DIR, or its DIR/_kfmt; may be given "
    "several times, for several jobs.",
)
@now
@config
@force
@common(color, jobs, max_decompressed)
def report(
    paths: tuple[str, ...],
    to: str,
    data: str | None,
    of_jobs: tuple[str, ...],
    now: int,
    config: Path | None,
    force: bool,
    common: Common,
) -> int:
    """Write one HTML page on what is on a disk: what is there, damaged and lost, and who lags.

    The page holds what check, stat, txn, retention and state say, with charts. It is one file that
    asks no network for anything, can be mailed and printed, and is readable without JavaScript.
    Needs pip install 'kfmt-cli[report]'.

    \b
    Examples:
      kfmt report sample_segments/kafka-3.9.1-broker1 --to DST/report.html
      kfmt report damaged_segments --to DST/incident.html --data DST/incident.json
    """
    from kfmt_cli.commands.log_settings import SettingsOf

    if bool(paths) == bool(of_jobs):
        raise UsageError("give PATH, or --from for what kfmt pipeline has written")
    try:
        from kfmt_cli.commands.gathering import Gathering
        from kfmt_cli.commands.report import write_page
        from kfmt_cli.commands.report_of_jobs import gather_jobs
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed: pip install 'kfmt-cli[report]'") from None
    run = common.run(writes=True)
    gathering = Gathering(run.host, SettingsOf(config), now, common.jobs, common.limit)

    def gather() -> PageData:
        return gather_jobs(of_jobs) if of_jobs else gathering.gather(paths)

    write_page(run, gather, to, data, [*paths, *of_jobs], force=force)
    return run.host.exit_code
