"""report: writes one page about a disk, or about the output of Spark jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.report.job_report import gather_job_data
from kfmt_cli.commands.report.options import ReportOptions
from kfmt_cli.commands.report.page_output import write_page
from kfmt_cli.commands.report.report_data import PageCollector


@dataclass(slots=True)
class ReportCommand:
    """One call of `report`."""

    run: CommandRun
    options: ReportOptions

    def execute(self) -> None:
        """Write the page and, if requested, its data; raises UsageError, OutputError."""
        options = self.options
        gather_page_data = (
            partial(gather_job_data, options.of_jobs)
            if options.of_jobs
            else PageCollector(self.run.output, options).gather_page_data
        )
        write_page(
            self.run,
            gather_page_data,
            options.to,
            options.data,
            [*options.paths, *options.of_jobs],
            force=options.force,
        )
