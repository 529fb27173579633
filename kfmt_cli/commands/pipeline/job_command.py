"""Starts Spark for `pipeline`, runs a job and reports the result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kfmt_cli import __version__
from kfmt_cli.cli.command_output import CommandOutput
from kfmt_cli.core.credentials import redact_credentials
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.lazy import import_object
from kfmt_cli.errors import ExitCode, InputError, UsageError
from kfmt_cli.options.selection import parse_selection_options
from kfmt_cli.render.style import escape_unprintable, format_count, format_thousands
from kfmt_cli.render.tables.result_table import NO_DAMAGE_LABEL, format_total
from kfmt_cli.spark.jobs.registry import JobSpec

INPUTS_NOT_FOUND_MESSAGE = (
    "none of the inputs could be opened by the Spark executors. A local path must exist on every "
    "executor: put the segments on shared storage (s3://, gs://, hdfs://, NFS), or run with "
    "--master 'local[*]' on the machine that has them"
)


@dataclass(slots=True)
class PipelineCommand:
    """One call of `pipeline` with a job."""

    job: JobSpec
    output: CommandOutput
    options: FieldDict
    job_options: dict[str, Any]
    """Options that not every job has."""

    def run(self) -> int:
        """Run the job; returns the exit code. Raises UsageError, InputError, OutputError."""
        from kfmt_cli.spark.session import check_packages, start_session

        check_packages()
        from kfmt_cli.arrow.export.atomic_files import remove_unfinished_files, write_json_file
        from kfmt_cli.spark.jobs.context import JobContext
        from kfmt_cli.spark.lake.lease import hold_lease
        from kfmt_cli.writers.output_access import private_like

        excludes_snapshots = self.job_options.get("tables") == "batches"  # of KRaft snapshots
        request = replace(
            self._create_request(),
            table="batches" if excludes_snapshots else self.job.listing_table,
        )
        output_directory = self._resolve_destination()
        context = JobContext(
            None, request, output_directory, self.options.format_, lambda _: None, self.job_options
        )
        if self.options.dry_run:
            return self._show_plan(context)
        job_function = import_object(self.job.run_function)
        spark_settings = dict(
            self._parse_setting(setting_text) for setting_text in self.options.conf
        )
        session_arguments = self.options.master, spark_settings, self.options.patience
        with (
            private_like(self.options.paths),
            hold_lease(output_directory, self.job.name) as context.directory_lease,
        ):
            if self.job.prepare_function:
                context.preparation = import_object(self.job.prepare_function)(context)
            with start_session(*session_arguments) as get_session:
                input_splits = context.files = self._list_inputs(request)
                context.spark = get_session()
                with self.output.progress(input_splits.n_bytes) as progress:
                    context.on_progress = progress.on_progress
                    summary = self._run_job(job_function, context)
            remove_unfinished_files(output_directory)
        summary.unreadable_inputs += [
            f"{path}: {reason}" for path, reason in input_splits.read_errors.items()
        ]
        write_json_file(
            f"{output_directory}/_kfmt/summary.json", self._summary_json(summary, input_splits)
        )
        if summary.n_vanished and summary.n_vanished >= summary.counts.get("segments", 0):
            raise InputError(INPUTS_NOT_FOUND_MESSAGE)
        return self._show_result(summary)

    def _list_inputs(self, request: Any) -> Any:
        """The inputs of the job; raises InputError, UsageError."""
        return import_object(self.job.inputs_function)(
            request, self.output.write_error, require_topics=True
        )

    def _show_plan(self, context: Any) -> ExitCode:
        """Show what the job would do."""
        from kfmt_cli.arrow.dry_run import dry_run_lines
        from kfmt_cli.execution.file_split import group_splits, split_files
        from kfmt_cli.execution.read_request import bytes_per_task

        context.is_dry_run = True
        if self.job.prepare_function:
            context.preparation = import_object(self.job.prepare_function)(context)
        context.files = self._list_inputs(context.request)
        input_splits = context.readable_inputs()
        task_bytes = bytes_per_task(context.request, input_splits)
        plan_lines = dry_run_lines(
            input_splits,
            group_splits(split_files(input_splits, task_bytes), task_bytes),
            context.output_directory,
        )
        removal_lines = (
            import_object(self.job.forecast_function)(context) if self.job.forecast_function else ()
        )
        for line in (*plan_lines[:-1], *removal_lines, plan_lines[-1]):
            self.output.write_text(f"{escape_unprintable(line)}\n")
        return ExitCode.CLEAN

    def _summary_json(self, summary: Any, input_splits: Sequence[Any]) -> dict[str, Any]:
        """The summary of a job for programs."""
        return {
            "version": __version__,
            "job": self.job.name,
            "inputs": list(self.options.paths),
            "files": len(input_splits),
            "numbers": summary.counts,
            "written": summary.output_paths,
            "unread": summary.unreadable_inputs,
        }

    def _show_result(self, summary: Any) -> ExitCode:
        """Show the result of a finished job; returns the exit code."""
        for line in summary.lines:
            self.output.write_text(f"  {escape_unprintable(line)}\n")
        count_texts = [
            _format_count(count_name, count) for count_name, count in summary.counts.items()
        ]
        has_findings = summary.n_errors or (
            self.options.get("strict") and summary.counts.get("warnings")
        )
        exit_code = ExitCode.FINDINGS if has_findings else ExitCode.CLEAN
        if summary.unreadable_inputs:
            exit_code = ExitCode.UNREADABLE
            count_texts = [text for text in count_texts if text != NO_DAMAGE_LABEL]
            count_texts.append(f"{format_count(len(summary.unreadable_inputs), 'input')} not read")
        summary_style = "good" if exit_code is ExitCode.CLEAN else "bad"
        summary_line = self.output.theme.paint(summary_style, ", ".join(count_texts))
        self.output.write_text(f"{summary_line}   exit {int(exit_code)}\n")
        for path in summary.output_paths:
            self.output.write_text(f"  {escape_unprintable(path)}\n")
        for line in summary.unreadable_inputs:
            self.output.write_error(f"kfmt: {escape_unprintable(line)}\n")
        return exit_code

    def _run_job(self, job_function: Callable[[Any], Any], context: Any) -> Any:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from kfmt_cli.spark.session import find_failure_reason

        try:
            return job_function(context)
        except (PySparkException, Py4JError) as error:
            error_text = redact_credentials(find_failure_reason(error))
            if self.options.traceback:
                self.output.write_error(
                    "".join(
                        f"{escape_unprintable(line)}\n"
                        for line in redact_credentials(str(error)).splitlines()
                    )
                )
                raise InputError(f"job failed: {error_text}") from error
            repeat_command = redact_credentials(shlex.join(["kfmt", *sys.argv[1:], "--traceback"]))
            raise InputError(
                f"job failed: {error_text}; for the full traceback, run: {repeat_command}"
            ) from error

    def _create_request(self) -> Any:
        """The request from the options; raises UsageError."""
        from kfmt_cli.arrow.export.file_formats import FILE_FORMATS
        from kfmt_cli.core.codecs.decompress import DecompressionLimit
        from kfmt_cli.execution.read_request import ReadRequest, build_request
        from kfmt_cli.rows.table_types import with_replica_columns
        from kfmt_cli.topics.payloads import NO_DECLARATIONS

        options = self.options
        columns = options.get("columns") or ""
        if columns and not FILE_FORMATS[options.format_].supports_columns:
            raise UsageError("--columns applies only to Parquet files")
        request = ReadRequest(
            selection_options=parse_selection_options(options),
            max_split_bytes=options.max_split_bytes,
            reads_all_replicas=self.job_options.get("all_replicas", True),
            decompression_limit=DecompressionLimit.from_option(options.max_decompressed),
            decodes_records=options.get("deep", False),
            payload_declarations=options.get("payloads", NO_DECLARATIONS),
        )
        request = build_request(request, options.paths, columns, options.topics)
        if self.job_options.get("all_replicas") and self.job.name == "export":
            request = replace(request, columns=request.columns or with_replica_columns("records"))
        return request

    def _resolve_destination(self) -> str:
        """The output directory: a URL, or an absolute path, which is valid in every process."""
        from kfmt_cli.writers.output import require_outside_inputs

        output_directory: str = self.options.to
        if "://" in output_directory:
            return output_directory
        if Path(output_directory).exists() and not Path(output_directory).is_dir():
            raise UsageError(f"{output_directory}: exists and is not a directory")
        require_outside_inputs(output_directory, self.options.paths)
        return str(Path(output_directory).absolute())

    @staticmethod
    def _parse_setting(setting_text: str) -> tuple[str, str]:
        name, separator, value = setting_text.partition("=")
        if not separator:
            raise UsageError(f"--conf {setting_text!r} is not NAME=VALUE")
        return name, value


def _format_count(count_name: str, count: int) -> str:
    if count_name == "damaged":
        return f"{format_thousands(count)} damaged" if count else NO_DAMAGE_LABEL
    return format_total(count, count_name)
