"""Options of report."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import (
    CommonOptions,
    common_options,
    config_option,
    force_option,
    kafka_version_option,
    now_option,
    optional_paths_argument,
    parse_literal_path,
)
from kfmt_cli.errors import UsageError

if TYPE_CHECKING:
    from kfmt_cli.broker.version import PredictedVersion


@grouped_command(short_help="Write one HTML page about a disk.")
@optional_paths_argument
@click.option(
    "--to", required=True, metavar="FILE", type=parse_literal_path, help="HTML file to write."
)
@click.option(
    "--data", metavar="FILE", type=parse_literal_path, help="Also write the page's data as JSON."
)
@click.option(
    "--from",
    "of_jobs",
    multiple=True,
    metavar="DIR",
    type=parse_literal_path,
    help="Instead of PATH: use the output of kfmt pipeline in DIR (or DIR/_kfmt). May be repeated "
    "for several jobs.",
)
@kafka_version_option
@now_option
@config_option
@force_option
@common_options("color", "jobs", "max-decompressed")
def report(
    paths: tuple[str, ...],
    to: str,
    data: str | None,
    of_jobs: tuple[str, ...],
    kafka: PredictedVersion | None,
    now: int,
    config: Path | None,
    force: bool,
    common: CommonOptions,
) -> None:
    """Write one HTML page about a disk: its contents, damage, losses and consumer lag.

    The page combines check, stat, txn, retention and state, with charts. It is a single
    self-contained file that makes no network requests, can be mailed and printed, and is readable
    without JavaScript. Needs pip install 'kfmt-cli[report]'.

    \b
    Examples:
      kfmt report sample_segments/kafka-3.9.1-broker1 --to DST/report.html
      kfmt report damaged_segments --to DST/incident.html --data DST/incident.json
    """
    from kfmt_cli.commands.settings_resolver import TopicSettingsResolver

    if bool(paths) == bool(of_jobs):
        raise UsageError("give PATH, or --from with the output of kfmt pipeline")
    try:
        from kfmt_cli.commands.report.command import write_page
        from kfmt_cli.commands.report.job_report import gather_job_data
        from kfmt_cli.commands.report.report_data import PageCollector
    except ImportError as error:
        raise UsageError(f"{error.name} is not installed: pip install 'kfmt-cli[report]'") from None
    if find_spec("vl_convert") is None:
        raise UsageError("vl_convert is not installed: pip install 'kfmt-cli[report]'")
    run = common.start_run(writes_files=True)
    page_collector = PageCollector(
        run.output,
        TopicSettingsResolver(config),
        now,
        common.jobs,
        common.decompression_limit,
        kafka,
    )
    gather_page_data = (
        partial(gather_job_data, of_jobs)
        if of_jobs
        else partial(page_collector.gather_page_data, paths)
    )
    write_page(run, gather_page_data, to, data, [*paths, *of_jobs], force=force)
