"""The summary of one log: its statistics and, on request, its shape, from batch headers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.log.block import Block
from kfmt_cli.log.small_logs import SmallLogs
from kfmt_cli.log.summary.shape import LogShape
from kfmt_cli.log.summary.statistics import LogStatistics, compute_statistics

LogShapeFactory = Callable[[InputFile], LogShape | None]
"""Creates the shape of a log, still without batches; None if no shape is requested."""


def create_no_shape(log: InputFile) -> None:
    """The factory for no shapes."""
    del log


@dataclass(slots=True)
class LogSummary:
    """The summary of one log."""

    shape: LogShape | None = None
    statistics: LogStatistics = field(default_factory=lambda: LogStatistics(segments=1))

    def add_block(self, block: Block, *, has_wrapper_counts: bool = False) -> None:
        """Add the next block. has_wrapper_counts: `records_count` is valid for wrappers as well."""
        self.statistics.add_block(block, has_wrapper_counts=has_wrapper_counts)
        if self.shape is not None:
            self.shape.add_block(block)

    @property
    def index_error(self) -> str:
        """Why the offset index for its segment map cannot be read; empty if it can."""
        return (
            ""
            if self.shape is None or self.shape.segment_map is None
            else self.shape.segment_map.index_error
        )


def summarize_small_logs(
    small_logs: SmallLogs, create_shape: LogShapeFactory
) -> list[LogSummary | None]:
    """The summary of each log in `small_logs`; None for one that is not valid."""
    statistics_by_log = compute_statistics(
        small_logs.batches, small_logs.file_of_batch, len(small_logs.files)
    )
    summaries: list[LogSummary | None] = [None] * len(statistics_by_log)
    for log_index in np.flatnonzero(small_logs.is_valid).tolist():
        statistics_by_log[log_index].segments = 1
        log_summary = summaries[log_index] = LogSummary(
            create_shape(small_logs.files[log_index]), statistics_by_log[log_index]
        )
        log_summary.statistics.set_size_and_span(int(small_logs.sizes[log_index]))
        if log_summary.shape is not None:
            log_summary.shape.add_block(small_logs.file_block(log_index))
    return summaries
