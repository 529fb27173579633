"""verify: every batch of a fleet checked; the tables `segments` and `findings`, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa

from kfmt_cli.arrow.checking import FileSummary, check_pieces, results_of
from kfmt_cli.findings.damage import FILE_VANISHED
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.jobs.context import (
    Context,
    JobSummary,
    left_out,
    table_of,
    unread_of,
    write_table,
)
from kfmt_cli.spark.work import Job, Ledger, Result, run

SUMS = ("batches", "records", "errors", "warnings", "notes")
TOGETHER = 4096  # rows
NO_FINDINGS = {"errors": 0, "warnings": 0, "notes": 0}


@dataclass(slots=True)
class JobFindings:
    """What a job collects."""

    numbers: Counter[str] = field(default_factory=Counter)
    """The sums of all files."""
    segments: list[pa.Table] = field(default_factory=list)
    """The rows of the files, which are many, as Arrow."""
    rows: list[dict[str, object]] = field(default_factory=list)
    """The rows of the findings that are kept."""
    codes: Counter[str] = field(default_factory=Counter)
    """How many there are of each, kept or not."""
    _held: list[dict[str, object]] = field(default_factory=list)

    def take(self, file: FileSummary) -> None:
        """Add a file."""
        self.numbers["segments"] += 1
        self.numbers["bytes"] += file.piece.size
        for name in SUMS:
            self.numbers[name] += file.numbers[name] or 0
        self.numbers["damaged"] += (file.numbers["errors"] or 0) > 0
        self._held.append(file.as_row())
        if len(self._held) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Have all rows as Arrow."""
        self.segments.append(table_of("segments", self._held))
        self._held = []


def check(request: Request, pieces: Sequence[Piece], to: str) -> list[Result]:
    """What pieces hold and what is wrong with them."""
    del to
    return [
        {
            "summary": checked.summary.numbers,
            **results_of(checked.findings, checked.edges),
            "outputs": [],
        }
        for checked in check_pieces(request, pieces)
    ]


def collect(context: Context, job: Job) -> JobFindings:
    """Do the job; a summary of each file, and all findings."""
    ledger = Ledger(context.to, job)
    ledger.open()
    pieces = ledger.plan(context.request, context.inputs())
    found = JobFindings()
    results = run(context.spark, context.request, ledger, pieces, context.advance)
    for _, parts in groupby(results, key=lambda done: done[0].path):
        summary: FileSummary | None = None
        for piece, result in parts:
            summary = summary or FileSummary(piece)
            summary.add({**result["summary"], **NO_FINDINGS})
            summary.count(result["codes"])
            found.rows += result["findings"]
            found.codes.update(result["codes"])
        assert summary is not None
        found.take(summary)
    found.flush()
    return found


def job_options(context: Context) -> dict[str, object]:
    """What the results of a check depend on."""
    return {"deep": context.request.deep, "format": context.format}


def run_job(context: Context) -> JobSummary:
    """Check everything."""
    found = collect(context, Job("verify", check, job_options(context), together=True))
    written = [
        write_table(f"{context.to}/{name}/part-0", table, context.format)
        for name, table in (
            ("segments", pa.concat_tables(found.segments)),
            ("findings", table_of("findings", found.rows)),
        )
    ]
    return summarize(found, written)


def summarize(found: JobFindings, written: list[str]) -> JobSummary:
    """The numbers of all files, and the kinds of findings."""
    numbers = {name: found.numbers[name] for name in ("segments", "bytes", *SUMS, "damaged")}
    lines = [f"{n:>8}  {code}" for code, n in found.codes.most_common()]
    return JobSummary(
        numbers,
        written,
        lines + left_out(found.codes, found.rows),
        numbers["errors"],
        found.codes[FILE_VANISHED.name],
        unread_of(found.rows),
    )
