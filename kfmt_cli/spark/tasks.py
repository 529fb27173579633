"""Run a function in Spark's tasks.

A session of Spark Connect has no `sparkContext`, so that it runs a UDF over a literal table of the
shares. In the others an RDD does it seconds faster, as Spark need not load its SQL.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kfmt_cli.core.parallel import aside
from kfmt_cli.spark.worker import context_of, drivers_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kfmt_cli.spark.worker import Spark

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
    spark: Spark,
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
    by = _ByQuery(tag, spark) if context is None else _ByContext(tag, context, words)
    # Ask Spark for the progress: listing results repeatedly would cost requests.
    with by.prepared(len(shares)) as finished:
        running = aside(lambda: by.collect(function, shares))
        try:
            while wait([running], timeout=PATIENCE).not_done:
                reached(finished())
        except BaseException:  # nobody waits for a thread that Spark does not answer
            wait([aside(by.cancel)], timeout=LAST_PATIENCE)
            raise
        return running.result()


@dataclass(frozen=True, slots=True)
class _ByContext:
    """Tasks of an RDD."""

    tag: str
    context: SparkContext
    words: str

    @contextmanager
    def prepared(self, n_tasks: int) -> Iterator[Callable[[], int]]:
        """A function that returns the number of finished tasks."""
        del n_tasks
        with drivers_python(self.context):
            yield partial(_tasks_done, self.context, self.tag)

    def collect(self, function: Callable[[bytes], bytes], shares: Sequence[bytes]) -> list[bytes]:
        """The answers."""
        self.context.setJobGroup(self.tag, self.words, interruptOnCancel=True)
        return self.context.parallelize(shares, len(shares)).map(function).collect()

    def cancel(self) -> None:
        """End the tasks."""
        self.context.cancelJobGroup(self.tag)


@dataclass(frozen=True, slots=True)
class _ByQuery:
    """Tasks of a plain UDF, which needs no pandas on the workers, in Spark Connect."""

    tag: str
    spark: Any

    @contextmanager
    def prepared(self, n_tasks: int) -> Iterator[Callable[[], int]]:
        """A function that returns the number of finished tasks in the session's latest operation,
        as there are no job groups."""
        told = [0]

        def take(*, stages: Any, **_: Any) -> None:
            told.append(sum(stage.num_completed_tasks for stage in stages or ()))

        with _set(self.spark, {_N_TASKS: str(n_tasks), **_PLAIN}):
            self.spark.registerProgressHandler(take)
            try:
                yield lambda: max(told)
            finally:
                self.spark.removeProgressHandler(take)

    def collect(self, function: Callable[[bytes], bytes], shares: Sequence[bytes]) -> list[bytes]:
        """The answers."""
        from pyspark.sql.functions import udf

        self.spark.addTag(self.tag)  # of this thread
        rows = ", ".join(["(?)"] * len(shares))
        query = f"SELECT * FROM VALUES {rows} AS shares(share)"  # noqa: S608
        frame = self.spark.sql(query, args=list(shares))
        answers = frame.select(udf(function, "binary", useArrow=False)(frame["share"]))
        return [bytes(row[0]) for row in answers.collect()]

    def cancel(self) -> None:
        """End the tasks."""
        self.spark.interruptTag(self.tag)


@contextmanager
def _set(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Change the session's settings until the block ends; after an exception, such as Ctrl+C, a
    server that does not answer is not waited for."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    except BaseException:
        wait([aside(partial(_put_back, spark, before))], timeout=LAST_PATIENCE)
        raise
    _put_back(spark, before)


def _put_back(spark: SparkSession, before: Mapping[str, str | None]) -> None:
    for name, known in before.items():
        if known is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, known)


def _tasks_done(context: SparkContext, group: str) -> int:
    """The number of finished tasks in a job group."""
    status = context.statusTracker()
    done = 0
    for number in status.getJobIdsForGroup(group):
        job = status.getJobInfo(number)
        stages = [status.getStageInfo(stage) for stage in job.stageIds] if job else []
        done += sum(stage.numCompletedTasks for stage in stages if stage)
    return done
