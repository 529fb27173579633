"""An Airflow DAG that exports a cluster's segments to a lake every day.

    cp examples/airflow_kfmt.py "$AIRFLOW_HOME/dags"

Needs Airflow 3, and `pip install 'kfmt-cli[spark]'` and Java 17 where its tasks run. A retry is
cheap: the job resumes, and skips inputs that are finished.
"""

from __future__ import annotations

import logging
import os
import subprocess
from datetime import datetime, timedelta, timezone

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.sdk import dag, task

SOURCE = os.environ.get("KFMT_SOURCE", "s3://bucket/kafka")
LAKE = os.environ.get("KFMT_LAKE", "s3://lake/kafka")
MASTER = os.environ.get("KFMT_MASTER", "local[*]")

CLEAN, FINDINGS, USAGE = 0, 1, 2  # 3: an input could not be read; 4: Spark did not start


@task(retries=3, retry_delay=timedelta(minutes=5))
def export_segments(source: str, lake: str, master: str) -> int:
    """Export records. Findings are a warning, an invalid command fails, all else is retried."""
    command = ["kfmt", "pipeline", "export", source, "--to", lake, "--master", master]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    log = logging.getLogger(__name__)
    log.info("%s", result.stdout)
    if result.returncode == FINDINGS:
        log.warning("segments are damaged; the table findings in %s says where", lake)
    elif result.returncode == USAGE:
        raise AirflowFailException(result.stderr)
    elif result.returncode != CLEAN:
        raise AirflowException(f"exit {result.returncode}: {result.stderr}")
    return result.returncode


@dag(schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False)
def kafka_segments() -> None:
    """One export a day."""
    export_segments(SOURCE, LAKE, MASTER)


kafka_segments()
