"""Typical audit queries on a cluster's segments, in SQL.

    python examples/spark_report.py [PATH…]
    spark-submit --master MASTER examples/spark_report.py [PATH…]

Needs `pip install 'kfmt-cli[spark]'` and Java 17. Without spark-submit, it runs on this machine.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from kfmt_cli.spark import register

QUESTIONS = {
    "Largest keys, with the bytes written under them": """
        SELECT topic, decode(key, 'UTF-8') AS key, count(*) AS records,
               sum(length(value)) AS bytes, max(length(value)) AS largest
        FROM records WHERE key IS NOT NULL AND NOT control AND topic NOT LIKE '!_!_%' ESCAPE '!'
        GROUP BY topic, key ORDER BY bytes DESC, topic, key LIMIT 5""",
    "Records per minute": """
        SELECT topic, date_format(date_trunc('MINUTE', timestamp), 'yyyy-MM-dd HH:mm') AS minute,
               count(*) AS records
        FROM records WHERE topic = 'orders' GROUP BY ALL ORDER BY minute LIMIT 5""",
    "Producers without batching": """
        SELECT topic, producer_id, count(*) AS batches, sum(records_count) AS records,
               round(sum(records_count) / count(*), 1) AS records_per_batch
        FROM batches WHERE NOT control AND magic = 2
        GROUP BY topic, producer_id HAVING records_per_batch < 2 AND batches > 1
        ORDER BY batches DESC, topic LIMIT 5""",
    "Lost data": """
        SELECT regexp_extract(file, '[^/]+/[^/]+$', 0) AS file, code, position, offset
        FROM findings WHERE severity = 'error' ORDER BY file""",
}


def main() -> None:
    paths = sys.argv[1:] or ["sample_segments/kafka-3.9.1-broker1", "damaged_segments"]
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    register(spark)
    for table in ("records", "batches", "findings"):
        frame = spark.read.format("kfmt").option("table", table).load(paths)
        frame.createOrReplaceTempView(table)
    for question, query in QUESTIONS.items():
        print(question)
        spark.sql(query).show(10, truncate=False)


if __name__ == "__main__":
    main()
