"""The numbers of one log: its statistics and, on request, its shape, from batch headers."""

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
"""The shape of a log without batches yet; None if it is not wanted."""


def without_shape(log: InputFile) -> None:
    """No shape is wanted."""
    del log


@dataclass(slots=True)
class LogNumbers:
    """The numbers of one log."""

    shape: LogShape | None = None
    statistics: LogStatistics = field(default_factory=lambda: LogStatistics(segments=1))

    def add_block(self, block: Block, *, is_counted: bool = False) -> None:
        """Add the next block; see `Statistics.take`."""
        self.statistics.add_block(block, has_wrapper_counts=is_counted)
        if self.shape is not None:
            self.shape.add_block(block)

    @property
    def index_error(self) -> str:
        """Why the offset index of its strip cannot be read; empty if it can."""
        return (
            ""
            if self.shape is None or self.shape.segment_map is None
            else self.shape.segment_map.index_error
        )


def summarize_small_logs(pack: SmallLogs, create_shape: LogShapeFactory) -> list[LogNumbers | None]:
    """The numbers of each log of a pack; None for one that is not good."""
    statistics = compute_statistics(pack.batches, pack.file_of_batch, len(pack.files))
    numbers: list[LogNumbers | None] = [None] * len(statistics)
    for i in np.flatnonzero(pack.is_valid).tolist():
        statistics[i].segments = 1
        log_numbers = numbers[i] = LogNumbers(create_shape(pack.files[i]), statistics[i])
        log_numbers.statistics.finish(int(pack.sizes[i]))
        if log_numbers.shape is not None:
            log_numbers.shape.add_block(pack.file_block(i))
    return numbers
