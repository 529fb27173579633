-- Audit queries over the Parquet files of `kfmt export PATH --to lake`, for DuckDB:
--
--     duckdb < examples/lake_report.sql
--
-- In dbt-duckdb, each query is a model: replace records by {{ source('kafka', 'records') }}, with
-- external_location lake/records/**/*.parquet.

CREATE OR REPLACE VIEW records AS FROM read_parquet('lake/records/**/*.parquet');

-- Largest keys, with the bytes written under them
SELECT topic, "key", count(*) AS records, sum(octet_length("value")) AS bytes
FROM records
WHERE "key" IS NOT NULL AND NOT control
GROUP BY topic, "key"
ORDER BY bytes DESC NULLS LAST, topic, "key"
LIMIT 5;

-- Records per hour (UTC)
SELECT topic, date_trunc('hour', "timestamp" AT TIME ZONE 'UTC') AS "hour", count(*) AS records
FROM records
WHERE "timestamp" IS NOT NULL
GROUP BY ALL
ORDER BY topic, "hour";

-- Duplicates: offsets that a partition has more than once, as `--all-replicas` exports them. A topic
-- without an id counts by its name.
SELECT coalesce(topic_id, topic) AS id, "partition", "offset", count(*) AS copies,
       list(file ORDER BY file) AS files
FROM records
GROUP BY ALL
HAVING copies > 1
ORDER BY ALL;
