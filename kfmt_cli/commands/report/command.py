"""report: writes one page about a disk, or about the output of Spark jobs."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.report.job_report import gather_job_data
from kfmt_cli.commands.report.options import ReportOptions
from kfmt_cli.commands.report.page.charts import vega_script
from kfmt_cli.commands.report.page.document import render_page
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.commands.report.report_data import PageCollector
from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.regular_files import regular_file
from kfmt_cli.errors import ExitCode, OutputError, UsageError
from kfmt_cli.render.style import format_bytes
from kfmt_cli.writers.output import StagingDirectory, open_staging_directory, require_outside_inputs


@dataclass(slots=True)
class ReportCommand:
    """One call of `report`."""

    run: CommandRun
    options: ReportOptions

    def execute(self) -> None:
        """Write the page and, if requested, its data; the files appear only if all are complete.
        Raises UsageError, OutputError."""
        run, options = self.run, self.options
        output_paths = [path for path in (options.to, options.data) if path is not None]
        if len(set(map(os.path.abspath, output_paths))) < len(output_paths):
            raise UsageError(f"{options.to}: --to and --data must be different files")
        for path in output_paths:
            require_outside_inputs(path, [*options.paths, *options.of_jobs])
            _require_replaceable_output(path)
        split_output_paths = map(os.path.split, output_paths)
        directories_and_names = [
            (directory or os.curdir, file_name) for directory, file_name in split_output_paths
        ]
        with ExitStack() as stack, ThreadPoolExecutor(1) as executor:
            staging_by_directory: dict[str, StagingDirectory] = {}
            for directory, _ in directories_and_names:
                if directory not in staging_by_directory:
                    staging_by_directory[directory] = stack.enter_context(
                        open_staging_directory(
                            directory,
                            options.force,
                            inputs=(*options.paths, *options.of_jobs),
                            for_broker=False,
                        )
                    )
                    run.report_leftovers(staging_by_directory[directory].removed_leftovers)
            output_files = [
                stack.enter_context(staging_by_directory[directory].create_file(file_name))
                for directory, file_name in directories_and_names
            ]
            # Takes a second; meanwhile, files are read.
            script_future = executor.submit(vega_script)
            page_data = self._gather_page_data()
            run.output.raise_exit_code(page_data.exit_code)
            for text in page_data.message_lines:
                run.sink.write_to_stderr(f"{text}\n")
            if page_data.exit_code is ExitCode.UNREADABLE and not page_data.partition_rows:
                for staging in staging_by_directory.values():
                    staging.prevent_commit()
                return
            contents = [render_page(page_data, partial(_chart_script, run, script_future))]
            if options.data is not None:
                objects_json = ",\n".join(map(json_text, page_data.iter_objects()))
                contents.append(f"[\n{objects_json}\n]\n")
            for output_file, text in zip(output_files, contents, strict=True):
                output_file.write(text.encode("utf-8", "backslashreplace"))
        for output_file in output_files:
            run.sink.write_line(f"{output_file.path}  {format_bytes(output_file.n_bytes)}\n")

    def _gather_page_data(self) -> PageData:
        if self.options.of_jobs:
            return gather_job_data(self.options.of_jobs)
        return PageCollector(self.run.output, self.options).gather_page_data()


def _chart_script(run: CommandRun, script_future: Future[str]) -> str:
    """The script that draws the charts; empty, with a note, if it cannot be created."""
    try:
        return script_future.result()
    except OutputError as error:
        run.sink.write_to_stderr(
            f"kfmt: {error}; the page has no charts, only their data as tables\n"
        )
        return ""


# First bytes of files that may be replaced on request.
_REPLACEABLE_PREFIXES = (b"<!doctype html>", b'[\n{"type":"report"')


def _require_replaceable_output(path: str) -> None:
    """Raise UsageError if the path exists and is neither a page nor its data."""
    if not os.path.basename(path) or Path(path).is_dir():  # noqa: PTH119 (as it was given)
        raise UsageError(f"{path}: is a directory; name a file")
    if Path(path).is_file():
        with regular_file(path) as file:
            first_bytes = file.read(len(max(_REPLACEABLE_PREFIXES, key=len)))
        if not first_bytes.startswith(_REPLACEABLE_PREFIXES):
            raise UsageError(f"{path}: exists and is not a kfmt report; choose another name")
