"""kfmt on Spark: any number of segments as tables.

    from kfmt_cli.spark import register

    register(spark)
    spark.read.format("kfmt").option("table", "records").load("/var/lib/kafka")

Needs `pip install 'kfmt-cli[spark]'`; nothing else in kfmt imports pyspark or pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the data source `kfmt` with a session; raises UsageError without the extra.

    On a local master the workers run this process's Python and kfmt, whatever PYSPARK_PYTHON is
    and however the session was created. On a cluster each machine needs its own kfmt, of the same
    version; if no Python is configured for the workers, a log message says what to set.
    """
    from kfmt_cli.spark.session import check_packages

    check_packages()
    from kfmt_cli.spark.source import create_shipped_source_type
    from kfmt_cli.spark.worker import (
        find_spark_context,
        prepare_driver_environment,
        use_driver_python,
        warn_missing_python,
    )

    context = find_spark_context(spark)
    warn_missing_python(context)
    with use_driver_python(context):
        spark.dataSource.register(create_shipped_source_type(prepare_driver_environment(spark)))
