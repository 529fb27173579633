"""The selections of a job whose logs have to be read first, found by tasks."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

from kfmt_cli.errors import InputError
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.tasks import in_tasks
from kfmt_cli.spark.wanted import in_partition, partitions_of
from kfmt_cli.spark.worker import carried, home_for

if TYPE_CHECKING:
    from kfmt_cli.spark.worker import Spark

TASKS_PER_CORE = 4  # as partitions take differently long


def selected_by_tasks(spark: Spark, request: Request, files: Pieces) -> dict[str, Selection]:
    """The same as `wanted.in_folders`; raises InputError, PySparkException."""
    partitions = list(partitions_of(files)) if request.asked.needs_logs else []
    if not partitions:
        return {}
    n_tasks = min(len(partitions), max(request.parallelism, 1) * TASKS_PER_CORE)
    shares = [pickle.dumps(partitions[i::n_tasks]) for i in range(n_tasks)]
    select = carried(home_for(spark), partial(_selected, request))
    found: dict[str, Selection] = {}
    for answer in in_tasks(spark, select, shares, "kfmt: selections of partitions"):
        said = pickle.loads(answer)  # noqa: S301 (a task's of this job)
        if isinstance(said, str):
            raise InputError(said)
        found |= said
    return found


def _selected(request: Request, share: bytes) -> bytes:
    """The selections in some partitions, or why they cannot be told."""
    found: dict[str, Selection] = {}
    try:
        for logs in pickle.loads(share):  # noqa: S301 (the driver's own)
            found |= in_partition(request, logs)
    except InputError as error:
        return pickle.dumps(str(error))
    return pickle.dumps(found)
