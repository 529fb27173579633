"""Exports as Delta and Iceberg tables, read by Spark itself with the jars of these formats.

There are jars for some versions of Spark only; `.ci/minima` runs this on the oldest one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lake_runs import COLUMNS, export, iceberg_table, without_spark
from tests.support.samples import ORDERS
from tools.kafka import fetched, missing

pyspark = pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

# By Spark's version: the versions of Delta and Iceberg.
JARS = {"4.0": ("4.4.0", "1.11.0"), "4.1": ("4.4.0", "1.12.0")}
SPARK = ".".join(pyspark.__version__.split(".")[:2])
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.skipif(SPARK not in JARS, reason=f"Delta and Iceberg have no jars for {SPARK}"),
]
JAR_PREFIXES = (
    "delta-spark",
    "delta-storage",
    "delta-kernel",
    "unitycatalog-client",
    "iceberg-spark",
)
DEPENDENCIES = """
<dependency><groupId>io.delta</groupId><artifactId>delta-spark_{spark}_2.13</artifactId>
<version>{delta}</version><exclusions><exclusion><groupId>org.apache.spark</groupId>
<artifactId>*</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.apache.iceberg</groupId>
<artifactId>iceberg-spark-runtime-{spark}_2.13</artifactId>
<version>{iceberg}</version></dependency>
"""
READ = """
import json, sys
from pyspark.sql import SparkSession
jars, kind, path, *columns = sys.argv[1:]
delta = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", delta)
    .getOrCreate()
)
rows = spark.read.format(kind).load(path).select(*columns).collect()
print(json.dumps([list(row) for row in rows]))
"""


def jars() -> str:
    delta, iceberg = JARS[SPARK]
    text = DEPENDENCIES.format(spark=SPARK, delta=delta, iceberg=iceberg)
    directory = fetched(f"spark-{SPARK}-tables", text)
    return ",".join(
        str(jar) for jar in directory.glob("*.jar") if jar.name.startswith(JAR_PREFIXES)
    )


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_spark_reads_each_row_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After two commits, of which the second replaces rows of the first."""
    without_spark(monkeypatch)
    logs, to = tmp_path / "in", tmp_path / "to"
    shutil.copytree(ORDERS.parent, logs / "orders-0")
    last = logs / f"orders-0/{1440:020}.log"
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    export(to, logs, table=kind)
    last.write_bytes(data)
    export(to, logs, table=kind)
    path = str(to / "records")
    if kind == "iceberg":  # a table without a catalog is read by its metadata
        path = iceberg_table(to).metadata_location.removeprefix("file://")
    result = subprocess.run(
        [sys.executable, "-c", READ, jars(), kind, path, *COLUMNS],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    rows = json.loads(result.stdout.splitlines()[-1])
    topic_id = (ORDERS.parent / "partition.metadata").read_text().split()[-1]
    assert sorted(rows) == [[topic_id, 0, offset] for offset in range(1500)]
