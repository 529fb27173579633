"""Base classes of checks of a partition's history, of checkpoints and of starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.identities import BrokerIdentities
from kfmt_cli.broker.start.outcome import PredictedStart
from kfmt_cli.checks.history.log_history import LogHistory
from kfmt_cli.disk.directory_listing import DirectoryListing
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding

LogOffsetIntervals = Mapping[int, tuple[int, int]]
"""The first offset and the end offset of each log of a partition, by base offset."""
_MAX_LISTED_NAMES = 3  # in one finding


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """The files next to the logs of a partition."""

    checkpoint_epoch_starts: list[tuple[int, int]] | None = None
    """Epochs and start offsets in leader-epoch-checkpoint, None without the file."""
    snapshot_by_offset: Mapping[int, InputFile] = field(default_factory=dict)
    """The producer snapshots, by offset."""
    log_start_offset: int = 0
    on_unreadable: Callable[[InputError], None] = lambda _: None
    """Reports a file that could not be read."""


def format_first_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    n_unlisted_names = len(names) - _MAX_LISTED_NAMES
    return ", ".join(names[:_MAX_LISTED_NAMES]) + (
        f" and {n_unlisted_names} more" if n_unlisted_names > 0 else ""
    )


class HistoryCheck:
    """A rule about the history in the logs of a partition, in order."""

    def __init__(self, files: HistoryFiles) -> None:
        self.files = files

    def check_log(self, history: LogHistory) -> Iterable[Finding]:
        """Add the next log; returns its findings."""
        raise NotImplementedError

    def finish(self) -> Iterable[Finding]:
        """Findings after the last log."""
        return ()


class CheckpointCheck:
    """A rule about the checkpoints of a log directory."""

    def check_directory(
        self,
        listing: DirectoryListing,
        log_directory: LogDirectory,
        intervals_by_partition: Mapping[tuple[str | None, int | None], LogOffsetIntervals],
        reported_end_by_partition: Mapping[tuple[str | None, int | None], int],
    ) -> Iterable[Finding]:
        """Findings about a log directory. reported_end_by_partition: the end offsets up to which
        offsets are reported as lost."""
        raise NotImplementedError


class BrokerCheck:
    """A rule about the log directories of a broker."""

    def check_broker(
        self, broker: BrokerDirectories, identities: BrokerIdentities
    ) -> Iterable[Finding]:
        """Findings about a broker. identities: the partitions in its directories."""
        raise NotImplementedError


class StartCheck:
    """A rule about a predicted start."""

    def check_start(self, start: PredictedStart, findings: Iterable[Finding]) -> Iterable[Finding]:
        """Findings about a start. findings: the findings about the partition's files."""
        raise NotImplementedError
