"""Distributes the files of a request to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.datasource import InputPartition

from kfmt_cli.execution.file_split import compute_split_points, group_splits
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest, bytes_per_task
from kfmt_cli.log.selection.selection import Selection

# Tables whose values depend on a whole file, for example on checks that compare neighbours.
UNSPLIT_TABLES = ("segments", "index_entries", "findings")


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """The part of a log that a trigger of a stream reads; the log may change before a task reads
    it."""

    end_offset: int
    """Exclusive."""
    topic_id: str | None = None
    """The topic id when the trigger was planned; None if it was unknown."""
    latest_epoch: int = -1
    """The leader epoch of the last batch; later ones are of another branch. -1: unknown."""


@dataclass(frozen=True, slots=True)
class KfmtInputPartition(InputPartition):
    """The input of one task."""

    splits: FileSplits = field(default_factory=FileSplits)
    selection_by_directory: Mapping[str, Selection] = field(default_factory=dict)
    """The selection per directory, if logs in other splits had to be read to determine it."""
    read_limits: tuple[ReadLimit, ...] = ()
    """In a stream, the limit of each split."""
    fails_on_data_loss: bool = True
    """In a stream, whether a topic that was recreated since the trigger was planned is an error."""


def distribute_files(request: ReadRequest, files: FileSplits) -> list[KfmtInputPartition]:
    """Distribute the files to tasks; returns an empty list if there is nothing to read."""
    task_bytes = bytes_per_task(request, files)
    is_splittable = request.table not in UNSPLIT_TABLES
    splits = (
        files.divide_splits(lambda file: compute_split_points(file, task_bytes))
        if is_splittable
        else files
    )
    return [
        KfmtInputPartition(task_splits)
        for task_splits in splits.iter_groups(group_splits(splits, task_bytes))
    ]
