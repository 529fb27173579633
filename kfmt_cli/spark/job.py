"""The work that a job does on splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.urls import is_local
from kfmt_cli.execution.file_grouping import FileGrouping
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.spark.selections import hash_selections

SplitResult = dict[str, Any]
StoredResult = FieldDict
"""A result that was stored."""
SplitFunction = Callable[[ReadRequest, Sequence[FileSplit], str], list[SplitResult]]


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """A job's work on splits."""

    name: str
    process_splits: SplitFunction
    """Called in a task with request, splits and directory; returns a JSON result per split."""
    options: dict[str, object]
    """The options that the results depend on, as plain values."""
    rc1_options: dict[str, object] = field(default_factory=dict)
    """The options that 1.0.0rc1 stored in another form, in that form."""
    grouping: FileGrouping | None = None
    """How splits are grouped, if several splits share output files."""

    def staging_directory(self, output_directory: str) -> str:
        """The directory in which tasks write outputs, which a commit moves to `output_directory`.
        For an object store it is `output_directory` itself, as objects cannot be renamed."""
        return (
            f"{output_directory}/_kfmt/staged" if is_local(output_directory) else output_directory
        )


def split_identity(split: FileSplit, request: ReadRequest) -> list[object]:
    """The values that identify the state of a split: a stored result is valid only if they are the
    same."""
    selection = request.selection_by_directory.get(split.directory)
    selection_hash = [] if selection is None else [hash_selections({split.directory: selection})]
    intervals = [list(map(list, split.offset_intervals))] if split.offset_intervals else []
    return [
        *(split.file_size, split.modified_ns, split.start, split.end),
        *selection_hash,
        *intervals,
    ]
