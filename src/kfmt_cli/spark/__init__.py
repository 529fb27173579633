"""kfmt on Spark: segments as tables, for as many of them as there are.

    from kfmt_cli.spark import register

    register(spark)
    spark.read.format("kfmt").option("table", "records").load("/var/lib/kafka")

Needs `pip install 'kfmt-cli[spark]'`; nothing else of kfmt imports pyspark or pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the data source `kfmt` known to a session; raises UsageError without the extra."""
    from kfmt_cli.spark.session import check_packages

    check_packages()
    from kfmt_cli.spark.source import KfmtDataSource

    spark.dataSource.register(KfmtDataSource)
