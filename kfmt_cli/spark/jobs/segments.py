"""segments: one row per file."""

from __future__ import annotations

from kfmt_cli.spark.jobs import verify
from kfmt_cli.spark.jobs.context import Context, JobSummary
from kfmt_cli.spark.ledger import Ledger


def prepare(context: Context) -> Ledger:
    """The directory of the job; raises UsageError if it holds other results."""
    return verify.prepare(context, "segments")


def run_job(context: Context) -> JobSummary:
    """Write one row per file."""
    return verify.check_all(context, "segments", ("segments",))
