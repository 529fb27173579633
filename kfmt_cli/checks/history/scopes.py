"""Base classes of checks of a partition's history, of checkpoints and of starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.start.brokers import Broker
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.outcome import Start
from kfmt_cli.checks.base import Check
from kfmt_cli.checks.history.facts import History
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import Folder
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding

Extents = Mapping[int, tuple[int, int]]
"""The first offset and the end offset of each log of a partition, by base offset."""
_NAMED = 3  # partitions that a finding names


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """The files next to the logs of a partition."""

    epochs: list[tuple[int, int]] | None = None
    """Epochs and start offsets in leader-epoch-checkpoint, None without the file."""
    snapshots: Mapping[int, Input] = field(default_factory=dict)
    """The producer snapshots, by offset."""
    log_start: int = 0
    """The log start offset."""
    unread: Callable[[InputError], None] = lambda _: None
    """Reports one of them that could not be read."""


def some_of(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


class HistoryCheck(Check):
    """A rule about the history in the logs of a partition, in order."""

    def __init__(self, files: HistoryFiles) -> None:
        self.files = files

    def take(self, history: History) -> Iterable[Finding]:
        """Add the next log; returns its findings."""
        raise NotImplementedError

    def finish(self) -> Iterable[Finding]:
        """Findings after the last log."""
        return ()


class CheckpointCheck(Check):
    """A rule about the checkpoints of a log directory."""

    def look(
        self,
        folder: Folder,
        directory: LogDirectory,
        partitions: Mapping[tuple[str | None, int | None], Extents],
        proven: Mapping[tuple[str | None, int | None], int],
    ) -> Iterable[Finding]:
        """Findings about a log directory. proven: the end offsets up to which offsets are reported
        as lost."""
        raise NotImplementedError


class BrokerCheck(Check):
    """A rule about the log directories of a broker."""

    def look(self, broker: Broker) -> Iterable[Finding]:
        """Findings about a broker."""
        raise NotImplementedError


class StartCheck(Check):
    """A rule about a predicted start."""

    def look(self, start: Start, found: Iterable[Finding]) -> Iterable[Finding]:
        """Findings about a start. found: the findings about the partition's files."""
        raise NotImplementedError
