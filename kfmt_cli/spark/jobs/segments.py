"""segments: one row a file."""

from __future__ import annotations

import pyarrow as pa

from kfmt_cli.spark.jobs.context import Context, JobSummary, write_table
from kfmt_cli.spark.jobs.verify import check, collect, job_options, summarize
from kfmt_cli.spark.work import Job


def run_job(context: Context) -> JobSummary:
    """Sum up every file."""
    found = collect(context, Job("segments", check, job_options(context), together=True))
    rows = pa.concat_tables(found.segments)
    return summarize(found, [write_table(f"{context.to}/segments/part-0", rows, context.format)])
