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
"""Creates the shape of a log, still without batches; None if no shape is requested."""


def without_shape(log: InputFile) -> None:
    """The factory for no shapes."""
    del log


@dataclass(slots=True)
class LogNumbers:
    """The numbers of one log."""

    shape: LogShape | None = None
    statistics: LogStatistics = field(default_factory=lambda: LogStatistics(segments=1))

    def add_block(self, block: Block, *, is_counted: bool = False) -> None:
        """Add the next block. is_counted: `records_count` is valid for wrappers as well."""
        self.statistics.add_block(block, has_wrapper_counts=is_counted)
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


def summarize_small_logs(pack: SmallLogs, create_shape: LogShapeFactory) -> list[LogNumbers | None]:
    """The numbers of each log in `pack`; None for one that is not valid."""
    statistics = compute_statistics(pack.batches, pack.file_of_batch, len(pack.files))
    numbers: list[LogNumbers | None] = [None] * len(statistics)
    for i in np.flatnonzero(pack.is_valid).tolist():
        statistics[i].segments = 1
        log_numbers = numbers[i] = LogNumbers(create_shape(pack.files[i]), statistics[i])
        log_numbers.statistics.finish(int(pack.sizes[i]))
        if log_numbers.shape is not None:
            log_numbers.shape.add_block(pack.file_block(i))
    return numbers
