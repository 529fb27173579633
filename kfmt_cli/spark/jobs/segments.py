"""segments: one row per file."""

from __future__ import annotations

from kfmt_cli.spark.jobs.context import Context, JobSummary
from kfmt_cli.spark.jobs.verify import check_all


def run_job(context: Context) -> JobSummary:
    """Write one row per file."""
    return check_all(context, "segments", ("segments",))
