"""stats: per topic, partition and producer: sizes, how full batches are, codecs, skew.

Plain SQL over the table `batches`; so can be the next report.
"""

from __future__ import annotations

from kfmt_cli.arrow.output import names_in
from kfmt_cli.errors import UsageError
from kfmt_cli.spark.jobs.context import Context, JobSummary, write_table

REPORTS = {
    "topics": """
        SELECT topic, count(DISTINCT partition) AS partitions, sum(batches) AS batches,
               sum(records) AS records, sum(bytes) AS bytes,
               round(sum(records) / sum(batches), 1) AS records_per_batch,
               round(sum(bytes) / sum(records), 1) AS bytes_per_record,
               concat_ws(',', array_sort(array_distinct(flatten(collect_list(codecs))))) AS codecs,
               round(max(bytes) / avg(bytes), 2) AS skew,
               min(first_time) AS first_time, max(last_time) AS last_time
        FROM per_partition GROUP BY topic ORDER BY bytes DESC""",
    "partitions": """
        SELECT topic, partition, batches, records, bytes, first_offset, last_offset, first_time,
               last_time
        FROM per_partition ORDER BY topic, partition""",
    "producers": """
        SELECT topic, producer_id, count(*) AS batches, sum(records_of) AS records,
               sum(size) AS bytes, round(avg(records_of), 1) AS records_per_batch,
               round(avg(size), 1) AS bytes_per_batch,
               round(avg(CASE WHEN compression <> 'none' THEN 1 ELSE 0 END), 3) AS compressed,
               max(producer_epoch) AS last_epoch, min(max_timestamp) AS first_time,
               max(max_timestamp) AS last_time
        FROM counted WHERE NOT coalesce(control, false)
        GROUP BY topic, producer_id ORDER BY bytes DESC""",
}
VIEWS = {
    # A message of magic 0 or 1 is a record; how many a wrapper holds is not in its header.
    "counted": "SELECT *, coalesce(records_count, 1) AS records_of FROM batches",
    "per_partition": """
        SELECT topic, partition, count(*) AS batches, sum(records_of) AS records,
               sum(size) AS bytes, collect_set(compression) AS codecs,
               min(base_offset) AS first_offset, max(last_offset) AS last_offset,
               min(max_timestamp) AS first_time, max(max_timestamp) AS last_time
        FROM counted GROUP BY topic, partition""",
}
COLUMNS = (
    *("topic", "partition", "size", "base_offset", "last_offset", "compression", "control"),
    *("max_timestamp", "producer_id", "producer_epoch", "records_count"),
)


def run_job(context: Context) -> JobSummary:
    """Make the reports."""
    if names_in(context.to):
        raise UsageError(f"{context.to}: is not empty")
    spark = context.spark
    batches = context.table("batches", COLUMNS).cache()
    batches.createOrReplaceTempView("batches")
    for name, query in VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)
    summary = JobSummary()
    for name, query in REPORTS.items():
        table = spark.sql(query).toArrow()
        summary.written.append(write_table(f"{context.to}/{name}", table, context.format))
        summary.numbers[name] = len(table)
        if name == "topics":
            summary.lines = [_line(row) for row in table.to_pylist()]
    batches.unpersist()
    return summary


def _line(row: dict[str, object]) -> str:
    topic = row["topic"] or "(no partition directory)"
    return (
        f"{topic:<28} {row['partitions']:>4} partitions {row['records']:>12} records "
        f"{row['bytes']:>14} bytes  {row['records_per_batch']:>8} a batch  skew {row['skew']}  "
        f"{row['codecs']}"
    )
