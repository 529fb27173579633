"""The input and result of a job, and the tables it writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from kfmt_cli.arrow.columns.schema import arrow_schema
from kfmt_cli.arrow.export.table_file import TableFileWriter, open_table_file
from kfmt_cli.arrow.input_files import list_input_files
from kfmt_cli.arrow.split_checks import MAX_STORED_FINDINGS, count_severities
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.findings.codes import FILE_VANISHED, UNREADABLE_FILE_CODES
from kfmt_cli.render.style import format_thousands
from kfmt_cli.rows.column import RowType
from kfmt_cli.spark.job import JobDefinition, StoredResult
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.lake.lease import DirectoryLease
from kfmt_cli.spark.split_processing import process_job_splits


@dataclass(slots=True)
class JobContext:
    """One run of a job."""

    spark: Any
    """The `worker.Spark` that runs tasks; None before it is started."""
    request: ReadRequest
    output_directory: str
    file_format: str
    on_progress: Callable[[int], None]
    options: dict[str, Any] = field(default_factory=dict)
    """The job's options, by name."""
    files: FileSplits | None = None
    """The inputs, if already listed."""
    directory_lease: DirectoryLease = field(default_factory=DirectoryLease)
    is_dry_run: bool = False
    """Whether nothing is to be written."""
    preparation: Any = None
    """The result of the job's prepare function, which runs before Spark starts."""

    def open_table_file(
        self, name: str, row_type: RowType
    ) -> AbstractContextManager[TableFileWriter]:
        """Open a table file in the output directory, which appears, complete, when the block ends;
        raises OutputError. name: without the suffix of the format."""
        return open_table_file(
            f"{self.output_directory}/{name}", arrow_schema(row_type.leaves), self.file_format
        )

    def list_inputs(self) -> FileSplits:
        """All files, including those that could not be listed; lists them if needed."""
        if self.files is None:
            self.files = list_input_files(self.request)
        return self.files

    def readable_inputs(self) -> FileSplits:
        """The readable files; lists them if needed."""
        return self.list_inputs().readable_splits

    def process_inputs(
        self, job_directory: JobDirectory, summary: JobSummary, request: ReadRequest | None = None
    ) -> Iterator[tuple[FileSplit, StoredResult]]:
        """Process all inputs; the results of their splits, whose findings are added to the summary.
        request: the context's request with the selections found in the logs."""
        request = request or self.request
        job_directory.plan_splits(request, self.readable_inputs())
        results = process_job_splits(self.spark, request, job_directory, self.on_progress)
        return ((split, summary.add_result(result)) for split, result in results)


@dataclass(slots=True)
class JobSummary:
    """The result of a job."""

    counts: dict[str, int] = field(default_factory=dict)
    """Counts for programs, in order."""
    output_paths: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Lines for users."""
    n_errors: int = 0
    n_vanished: int = 0
    unreadable_inputs: list[str] = field(default_factory=list)
    """The inputs that could not be read, or not to the end, with reasons."""
    findings_table: TableFileWriter | None = None
    """The table of findings; None if the job does not write one."""
    count_by_code: Counter[str] = field(default_factory=Counter)
    """The number of findings per code, stored or not."""
    n_stored_findings: int = 0

    def add_result(self, result: StoredResult) -> StoredResult:
        """Add the findings of a split; returns its result."""
        finding_rows = result.findings
        self.n_stored_findings += len(finding_rows)
        self.count_by_code.update(result.codes)
        if self.findings_table is not None:
            self.findings_table.add_rows(finding_rows)
        unreadable_code_names = {code.name for code in UNREADABLE_FILE_CODES}
        self.unreadable_inputs += (
            str(row["message"]) for row in finding_rows if row["code"] in unreadable_code_names
        )
        return result

    def count_findings(self) -> None:
        """Count the errors and the vanished files; add a line about findings that are not
        stored."""
        self.n_errors = count_severities(self.count_by_code)["errors"] or 0
        self.n_vanished = self.count_by_code[FILE_VANISHED.name]
        if n_omitted := sum(self.count_by_code.values()) - self.n_stored_findings:
            limit_text = (
                f"at most {format_thousands(MAX_STORED_FINDINGS)} are kept per part of a file"
            )
            line = (
                f"{format_thousands(n_omitted):>8}  of these are not in the findings table: "
                f"{limit_text}"
            )
            self.lines.append(line)


def open_report_directory(context: JobContext, job: JobDefinition) -> JobDirectory:
    """The directory of a report about these inputs only; raises UsageError if it has results of
    another job or about other inputs."""
    common_options = {
        "format": context.file_format,
        "inputs": list(context.request.paths),
        "topics": sorted(context.request.topics),
    }
    job = replace(job, options={**job.options, **common_options})
    job_directory = JobDirectory(context.output_directory, job, is_dry_run=context.is_dry_run)
    job_directory.check_stored_job()
    return job_directory
