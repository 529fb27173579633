"""The plan of a job: its inputs, tasks, output and the number of requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kfmt_cli.core.small_objects import is_fetched_whole
from kfmt_cli.core.stored_source import READ_WINDOW_BYTES
from kfmt_cli.core.urls import is_local
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.render.style import format_count, format_thousands


def dry_run_lines(
    file_splits: FileSplits, task_splits: Iterable[Sequence[FileSplit]], output_directory: str
) -> list[str]:
    """The plan as lines of text: how much data a job would read, and where it would write.
    task_splits: the splits of each task."""
    n_requests = n_tasks = 0
    for splits in task_splits:
        n_tasks += 1
        for split in splits:
            if not is_local(split.path):
                n_head_requests = 0 if is_fetched_whole(split.path, split.file_size) else 1
                n_requests += n_head_requests + max(
                    -(-(split.end - split.start) // READ_WINDOW_BYTES), 1
                )
    requests_text = (
        f", in about {format_count(n_requests, 'object store request')}" if n_requests else ""
    )
    return [
        (
            f"would read {format_count(len(file_splits), 'file')}, "
            f"{format_thousands(file_splits.n_bytes)} "
            f"bytes{requests_text}"
        ),
        f"would run {format_count(n_tasks, 'task')} and write to {output_directory}",
        "dry run: nothing was read or written",
    ]
