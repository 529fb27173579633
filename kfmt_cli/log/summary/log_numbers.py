"""The numbers of one log: its statistics and, on request, its shape, from batch headers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.log.block import Block
from kfmt_cli.log.pack import Pack
from kfmt_cli.log.summary.shape import Shape
from kfmt_cli.log.summary.statistics import Statistics, statistics_of

ShapeOf = Callable[[Input], Shape | None]
"""The shape of a log without batches yet; None if it is not wanted."""


def no_shape(log: Input) -> None:
    """No shape is wanted."""
    del log


@dataclass(slots=True)
class LogNumbers:
    """The numbers of one log."""

    shape: Shape | None = None
    statistics: Statistics = field(default_factory=lambda: Statistics(segments=1))

    def take(self, block: Block, *, is_counted: bool = False) -> None:
        """Add the next block; see `Statistics.take`."""
        self.statistics.take(block, is_counted=is_counted)
        if self.shape is not None:
            self.shape.take(block)

    @property
    def trouble(self) -> str:
        """Why the offset index of its strip cannot be read; empty if it can."""
        return "" if self.shape is None or self.shape.strip is None else self.shape.strip.trouble


def numbers_in(pack: Pack, shape_of: ShapeOf) -> list[LogNumbers | None]:
    """The numbers of each log of a pack; None for one that is not good."""
    found = statistics_of(pack.batches, pack.owner, len(pack.files))
    made: list[LogNumbers | None] = [None] * len(found)
    for i in np.flatnonzero(pack.good).tolist():
        found[i].segments = 1
        log = made[i] = LogNumbers(shape_of(pack.files[i]), found[i])
        log.statistics.finish(int(pack.sizes[i]))
        if log.shape is not None:
            log.shape.take(pack.block(i))
    return made
