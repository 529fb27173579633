"""Run a function in Spark's tasks.

A Spark Connect session has no `sparkContext`, so it runs a UDF over a literal table of the task
inputs. In other sessions an RDD is seconds faster, as Spark need not load its SQL.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.parallel import run_in_daemon_thread
from kfmt_cli.spark.worker import find_spark_context, use_driver_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kfmt_cli.spark.worker import Spark

PROGRESS_INTERVAL_SECONDS = 0.2  # seconds between progress updates
CANCEL_TIMEOUT_SECONDS = 5.0  # seconds for Spark to take a cancellation
# The number of tasks of a literal table. A task gets its own rows only.
_PARALLELISM_SETTING = "spark.sql.leafNodeDefaultParallelism"
# Compiling Java for one row per task takes a second and saves nothing.
_UDF_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The full traceback also has the error's cause.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}


def run_in_tasks(
    spark: Spark,
    function: Callable[[bytes], bytes],
    task_inputs: Sequence[bytes],
    description: str = "kfmt",
    on_finished: Callable[[int], None] = lambda _: None,
) -> list[bytes]:
    """Run a function on each input in its own task, and return the results; raises
    PySparkException.

    description: the job's description for Spark's own pages. on_finished: called with the number of
    finished tasks. An exception while waiting, such as on Ctrl+C, cancels the tasks.
    """
    tag, context = f"kfmt-{uuid.uuid4().hex}", find_spark_context(spark)
    runner = _UdfTasks(tag, spark) if context is None else _RddTasks(tag, context, description)
    # Ask Spark for the progress: listing results repeatedly would cost requests.
    with runner.open_tasks(len(task_inputs)) as count_finished:
        future = run_in_daemon_thread(lambda: runner.collect_results(function, task_inputs))
        try:
            while wait([future], timeout=PROGRESS_INTERVAL_SECONDS).not_done:
                on_finished(count_finished())
        except BaseException:  # do not wait for a thread that Spark does not answer
            wait([run_in_daemon_thread(runner.cancel_tasks)], timeout=CANCEL_TIMEOUT_SECONDS)
            raise
        return future.result()


@dataclass(frozen=True, slots=True)
class _RddTasks:
    """Tasks of an RDD."""

    tag: str
    context: SparkContext
    description: str

    @contextmanager
    def open_tasks(self, n_tasks: int) -> Iterator[Callable[[], int]]:
        """A function that returns the number of finished tasks."""
        del n_tasks
        with use_driver_python(self.context):
            yield partial(_count_finished_tasks, self.context, self.tag)

    def collect_results(
        self, function: Callable[[bytes], bytes], task_inputs: Sequence[bytes]
    ) -> list[bytes]:
        """The results of the function, in order."""
        self.context.setJobGroup(self.tag, self.description, interruptOnCancel=True)
        return self.context.parallelize(task_inputs, len(task_inputs)).map(function).collect()

    def cancel_tasks(self) -> None:
        """Cancel the tasks."""
        self.context.cancelJobGroup(self.tag)


@dataclass(frozen=True, slots=True)
class _UdfTasks:
    """Tasks of a plain UDF, which needs no pandas on the workers, in Spark Connect."""

    tag: str
    spark: Any

    @contextmanager
    def open_tasks(self, n_tasks: int) -> Iterator[Callable[[], int]]:
        """A function that returns the number of finished tasks in the session's latest operation,
        as there are no job groups."""
        finished_counts = [0]

        def on_progress(*, stages: Any, **_: Any) -> None:
            finished_counts.append(sum(stage.num_completed_tasks for stage in stages or ()))

        with _override_settings(self.spark, {_PARALLELISM_SETTING: str(n_tasks), **_UDF_SETTINGS}):
            self.spark.registerProgressHandler(on_progress)
            try:
                yield lambda: max(finished_counts)
            finally:
                self.spark.removeProgressHandler(on_progress)

    def collect_results(
        self, function: Callable[[bytes], bytes], task_inputs: Sequence[bytes]
    ) -> list[bytes]:
        """The results of the function, in order."""
        from pyspark.sql.functions import udf

        self.spark.addTag(self.tag)  # tags the operations of this thread
        row_placeholders = ", ".join(["(?)"] * len(task_inputs))
        query = f"SELECT * FROM VALUES {row_placeholders} AS shares(share)"  # noqa: S608
        input_frame = self.spark.sql(query, args=list(task_inputs))
        results = input_frame.select(udf(function, "binary", useArrow=False)(input_frame["share"]))
        return [bytes(row[0]) for row in results.collect()]

    def cancel_tasks(self) -> None:
        """Cancel the tasks."""
        self.spark.interruptTag(self.tag)


@contextmanager
def _override_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Change the session's settings until the block ends; after an exception, such as Ctrl+C, wait
    at most `CANCEL_TIMEOUT_SECONDS` for the server."""
    previous_values = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    except BaseException:
        wait(
            [run_in_daemon_thread(partial(_restore_settings, spark, previous_values))],
            timeout=CANCEL_TIMEOUT_SECONDS,
        )
        raise
    _restore_settings(spark, previous_values)


def _restore_settings(spark: SparkSession, previous_values: Mapping[str, str | None]) -> None:
    for name, previous_value in previous_values.items():
        if previous_value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, previous_value)


def _count_finished_tasks(context: SparkContext, job_group: str) -> int:
    """The number of finished tasks in a job group."""
    status_tracker = context.statusTracker()
    n_finished = 0
    for job_id in status_tracker.getJobIdsForGroup(job_group):
        job = status_tracker.getJobInfo(job_id)
        stages = [status_tracker.getStageInfo(stage) for stage in job.stageIds] if job else []
        n_finished += sum(stage.numCompletedTasks for stage in stages if stage)
    return n_finished
