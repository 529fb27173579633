"""Run a function in Spark's tasks.

A session of Spark Connect has no `sparkContext`, so that it runs a UDF over a literal table of the
shares. In the others an RDD does it a second faster, as Spark need not plan a query.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.parallel import aside
from kfmt_cli.spark.worker import context_of, drivers_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

PATIENCE = 0.2  # seconds between progress updates
LAST_PATIENCE = 5.0  # seconds for Spark to take a cancellation
# The number of tasks of a literal table. A task gets its own rows only.
_N_TASKS = "spark.sql.leafNodeDefaultParallelism"
# To compile Java for a row per task takes a second and gains nothing.
_PLAIN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A whole traceback also has the error's cause.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}


def in_tasks(
    spark: SparkSession,
    function: Callable[[bytes], bytes],
    shares: Sequence[bytes],
    words: str = "kfmt",
    reached: Callable[[int], None] = lambda _: None,
) -> list[bytes]:
    """The answers of a function to each share, in a task of its own; raises PySparkException.

    words: the job's description for Spark's own pages. reached: called with the number of finished
    tasks. An exception meanwhile, such as Ctrl+C, cancels the tasks.
    """
    tag, context = f"kfmt-{uuid.uuid4().hex}", context_of(spark)
    settings = {} if context is not None else {_N_TASKS: str(len(shares)), **_PLAIN}
    with _set(spark, settings), drivers_python(context):

        def collect() -> list[bytes]:
            if context is None:
                spark.addTag(tag)  # of this thread
                return _by_query(spark, function, shares)
            context.setJobGroup(tag, words, interruptOnCancel=True)
            found: list[bytes] = context.parallelize(shares, len(shares)).map(function).collect()
            return found

        # Ask Spark for the progress: listing results repeatedly would cost requests.
        with _finished(spark, context, tag) as finished:
            running = aside(collect)
            try:
                while wait([running], timeout=PATIENCE).not_done:
                    reached(finished())
            except BaseException:  # nobody waits for a thread that Spark does not answer
                stop = spark.interruptTag if context is None else context.cancelJobGroup
                wait([aside(lambda: stop(tag))], timeout=LAST_PATIENCE)
                raise
            return running.result()


def _by_query(
    spark: SparkSession, function: Callable[[bytes], bytes], shares: Sequence[bytes]
) -> list[bytes]:
    """The answers by a plain UDF, which needs no pandas on the workers."""
    from pyspark.sql.functions import udf

    rows = ", ".join(["(?)"] * len(shares))
    frame = spark.sql(f"SELECT * FROM VALUES {rows} AS shares(share)", args=list(shares))  # noqa: S608
    answers = frame.select(udf(function, "binary", useArrow=False)(frame["share"]))
    return [bytes(row[0]) for row in answers.collect()]


@contextmanager
def _set(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Change the session's settings until the block ends."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


@contextmanager
def _finished(
    spark: SparkSession, context: SparkContext | None, group: str
) -> Iterator[Callable[[], int]]:
    """A function that returns the number of finished tasks in a job group. In Spark Connect, where
    there are no groups, it counts the session's latest operation."""
    if context is not None:
        yield partial(_tasks_done, context, group)
        return
    told = [0]

    def take(*, stages: Any, **_: Any) -> None:
        told.append(sum(stage.num_completed_tasks for stage in stages or ()))

    spark.registerProgressHandler(take)  # type: ignore[arg-type]
    try:
        yield lambda: max(told)
    finally:
        spark.removeProgressHandler(take)  # type: ignore[arg-type]


def _tasks_done(context: SparkContext, group: str) -> int:
    """The number of finished tasks in a job group."""
    status = context.statusTracker()
    done = 0
    for number in status.getJobIdsForGroup(group):
        job = status.getJobInfo(number)
        stages = [status.getStageInfo(stage) for stage in job.stageIds] if job else []
        done += sum(stage.numCompletedTasks for stage in stages if stage)
    return done
