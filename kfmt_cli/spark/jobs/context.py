"""The input and result of a job, and the tables it writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from kfmt_cli.arrow.checking import MOST_KEPT, count_severities
from kfmt_cli.arrow.columns.schema import schema_of
from kfmt_cli.arrow.export.table_file import TableFile, table_file
from kfmt_cli.arrow.inputs import files_of
from kfmt_cli.findings.damage import FILE_VANISHED, UNREAD
from kfmt_cli.render.style import grouped
from kfmt_cli.rows.column import RowType
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Job, Stored
from kfmt_cli.spark.lake.lease import Lease
from kfmt_cli.spark.ledger import Ledger
from kfmt_cli.spark.work import run


@dataclass(slots=True)
class Context:
    """One run of a job."""

    spark: Any
    """Where tasks run, a `worker.Spark`; None before it is started."""
    request: Request
    to: str
    """The output directory."""
    format: str
    advance: Callable[[int], None]
    options: dict[str, Any] = field(default_factory=dict)
    """The job's options, by name."""
    files: Pieces | None = None
    """The inputs, if already listed."""
    lease: Lease = field(default_factory=Lease)
    is_dry: bool = False
    """Nothing is to be written."""
    prepared: Any = None
    """What the job found out before Spark started."""

    def table_file(self, name: str, rows: RowType) -> AbstractContextManager[TableFile]:
        """A table of the output directory, which appears, complete, when the block ends; raises
        OutputError. name: without the suffix of the format."""
        return table_file(f"{self.to}/{name}", schema_of(rows.leaves), self.format)

    def listed(self) -> Pieces:
        """All files, with those that could not be listed; lists them if needed."""
        if self.files is None:
            self.files = files_of(self.request)
        return self.files

    def inputs(self) -> Pieces:
        """The readable files; lists them if needed."""
        return self.listed().readable

    def results(
        self, ledger: Ledger, summary: JobSummary, request: Request | None = None
    ) -> Iterator[tuple[Piece, Stored]]:
        """The results of all inputs, whose findings the summary takes. request: what the logs had
        to say, too."""
        request = request or self.request
        ledger.plan(request, self.inputs())
        found = run(self.spark, request, ledger, self.advance)
        return ((piece, summary.take(result)) for piece, result in found)


@dataclass(slots=True)
class JobSummary:
    """The result of a job."""

    numbers: dict[str, int] = field(default_factory=dict)
    """Numbers for programs, in order."""
    written: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Lines for users."""
    errors: int = 0
    vanished: int = 0
    unread: list[str] = field(default_factory=list)
    """The inputs that could not be read, or not to the end, with reasons."""
    table: TableFile | None = None
    """The findings; None if the job writes no such table."""
    codes: Counter[str] = field(default_factory=Counter)
    """The number of findings per code, kept or not."""
    kept: int = 0

    def take(self, result: Stored) -> Stored:
        """Add the findings of a piece."""
        rows = result.findings
        self.kept += len(rows)
        self.codes.update(result.codes)
        if self.table is not None:
            self.table.add(rows)
        codes = {code.name for code in UNREAD}
        self.unread += (str(row["message"]) for row in rows if row["code"] in codes)
        return result

    def sum_up(self) -> None:
        """Count the findings by what they mean."""
        self.errors = count_severities(self.codes)["errors"] or 0
        self.vanished = self.codes[FILE_VANISHED.name]
        if left := sum(self.codes.values()) - self.kept:
            kept = f"at most {grouped(MOST_KEPT)} are kept per part of a file"
            words = f"{grouped(left):>8}  of these are not in the findings table: {kept}"
            self.lines.append(words)


def opened(context: Context, job: Job) -> Ledger:
    """The directory of a report, which is about these inputs only; raises UsageError if it holds
    results of another job, or about other inputs."""
    of_all = {
        "format": context.format,
        "inputs": list(context.request.paths),
        "topics": sorted(context.request.topics),
    }
    job = replace(job, options={**job.options, **of_all})
    ledger = Ledger(context.to, job, is_dry=context.is_dry)
    ledger.open()
    return ledger
