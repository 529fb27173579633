"""Search in a partition: from a batch of the open log onward, through the later logs, then from the
first log to the starting point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kfmt_cli.browse.batch_positions import Outline
from kfmt_cli.browse.log_search import Hit, Hunt, SoughtText
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import size_of
from kfmt_cli.errors import InputError


@dataclass(slots=True)
class PartitionHunt:
    """A search of all logs of a partition. It runs on its own thread."""

    logs: Sequence[Input]
    """In the order of their base offsets."""
    outline: Outline
    """The outline of the open log, which is one of `logs`."""
    sought: SoughtText
    start: int = 0
    """The byte of the open log at which the search starts."""
    stop: Callable[[], bool] = lambda: False
    limit: Limit | None = None
    number: int = 0
    """The index of the log being searched."""
    troubles: list[str] = field(default_factory=list)
    """Why some of the logs could not be read."""
    total: int = 0
    """The size of all logs in bytes."""
    _before: int = 0
    _at: Hunt | None = None

    def __post_init__(self) -> None:
        self.total = sum(map(size_of, self.logs))

    @property
    def done(self) -> int:
        """Bytes searched."""
        return self._before + (0 if self._at is None else self._at.done)

    def hits(self) -> Iterator[Hit]:
        """The matching records; raises UsageError."""
        first = next(
            (i for i, log in enumerate(self.logs) if log.path == self.outline.file.path), 0
        )
        yield from self._in(first, self.start, None)
        for number in (*range(first + 1, len(self.logs)), *range(first)):
            yield from self._in(number, 0, None)
        if self.start:
            yield from self._in(first, 0, self.start)

    def _in(self, number: int, start: int, end: int | None) -> Iterator[Hit]:
        """The hits in one log, from one byte up to another."""
        if self.stop():
            return
        self.number = number
        file = self.logs[number]
        try:
            is_open = file.path == self.outline.file.path
            outline = self.outline if is_open else Outline(file, self.outline.wanted)
            self._at = Hunt(outline, self.sought, start, self.stop, self.limit, end=end)
            yield from self._at.hits()
        except InputError as error:
            self.troubles.append(str(error))
        if self._at is not None:
            self._before, self._at = self.done, None
