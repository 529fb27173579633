"""check: the history of partitions, what a broker makes of them, and their checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kfmt_cli.broker.start.checkpoints import (
    EPOCH_TYPES,
    LEADER_EPOCHS,
    CheckpointError,
    NumberError,
    entries_of,
)
from kfmt_cli.broker.start.directory import (
    LogDirectory,
    directory_at,
    quorum_troubles,
)
from kfmt_cli.broker.start.outcome import Start
from kfmt_cli.checks.history import codes
from kfmt_cli.checks.history.facts import histories
from kfmt_cli.checks.history.partition import PartitionHistory
from kfmt_cli.checks.log.packs import packs
from kfmt_cli.checks.partition.names import names_partition, not_partitions
from kfmt_cli.core.finding import Finding, Severity
from kfmt_cli.errors import InputError
from kfmt_cli.files.disk import Folder, is_segment, size_of
from kfmt_cli.files.names import mark_of, place_of
from kfmt_cli.tasks.check_checkpoints import checkpoint_findings
from kfmt_cli.tasks.check_report import Report
from kfmt_cli.tasks.check_start import PartitionFacts, down, starts_of
from kfmt_cli.tasks.processes import MANY_BYTES, at_once, map_processes


@dataclass(slots=True)
class Partitions:
    """The directories of a call, each with its report. tell: takes a finding. report_of: gives the
    report that a file belongs to."""

    reports: dict[str, Report]
    tell: Callable[[Finding], None]
    report_of: Callable[[str], Report]
    jobs: int
    interval: int

    def histories(self, folders: list[Folder], advance: Callable[[int], None]) -> None:
        """What the batches tell of producers, transactions and leaders."""
        logs = [(folder, file) for folder in folders for file in folder.logs]
        sizes = [size_of(file) for _, file in logs]
        units = list(packs([file for _, file in logs], sizes))
        jobs = self.jobs if sum(sizes) >= MANY_BYTES else 1
        work = partial(histories, trusts=self.is_sound)
        done = map_processes(work, units, jobs, at_once(len(units), jobs))
        found = (history for unit in done for history in unit)
        current: Folder | None = None
        following: PartitionHistory | None = None
        for (folder, _), history, size in zip(logs, found, sizes, strict=True):
            advance(size)
            if folder is not current:
                self._end_history(current, following)
                current, following = folder, _history_of(folder)
            assert following is not None
            if history is not None:
                for finding in following.take(history):
                    self.tell(finding)
        self._end_history(current, following)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with any log, as far as they have been looked at."""
        return not any(it.all for it in self.reports.values())

    def _end_history(self, folder: Folder | None, following: PartitionHistory | None) -> None:
        if folder is None or following is None:
            return
        for finding in following.finish():
            self.tell(finding)
        self.reports[folder.name].has_transactions = following.has_transactions

    def starts(
        self, folders: list[Folder], directories: dict[str, LogDirectory]
    ) -> Iterator[Start]:
        """What a broker would make of each partition, and what keeps it down."""
        beside = dict(directories)
        for folder in folders:
            directory = directories.get(folder.path)
            if directory is not None:
                yield from down(directory.troubles)
                odd = not_partitions(folder)
                yield from down((it.file, f"{it.file}: {it.message}") for it in odd)
            if not _is_partition(folder):
                continue
            yield from down(quorum_troubles(folder))
            report = self.reports[folder.name]
            above = self._above(folder, beside)
            report.marker = above.marker
            facts = PartitionFacts(
                folder, report.shown, report.extents, report.all, report.has_transactions
            )
            with suppress(InputError):  # it has been said
                for start in starts_of(facts, above, self.interval):
                    if start.harms or not mark_of(folder.path):
                        report.starts.append(start)
                        yield start

    def _above(self, folder: Folder, directories: dict[str, LogDirectory]) -> LogDirectory:
        """The log directory that a partition lies in, also where only the partition was given."""
        path = str(Path(folder.path).parent)
        if path not in directories:
            directories[path] = directory_at(Path(folder.path).resolve().parent)
        return directories[path]

    def checkpoints(
        self, folders: list[Folder], directories: dict[str, LogDirectory], starts: list[Start]
    ) -> None:
        """Offsets in checkpoints against the logs; a start that fails for no other reason."""
        for folder in folders:
            directory = directories.get(folder.path)
            if directory is not None:
                below = [it for it in folders if str(Path(it.path).parent) == folder.path]
                reports = {
                    place_of(it.path.rpartition("/")[2]): self.reports[it.name] for it in below
                }
                for finding in checkpoint_findings(folder, directory, reports):
                    self.tell(finding)
        for start in starts:
            report = self.report_of(start.file)
            if not start.starts and not any(
                it.code.severity is Severity.ERROR for it in report.all
            ):
                words = start.reason or ""
                self.tell(Finding(start.file, codes.START_FAILS, None, words))
        self._twice(folders, directories)

    def _twice(self, folders: list[Folder], directories: dict[str, LogDirectory]) -> None:
        """Partitions that lie in two log directories."""
        known: dict[str, Folder] = {}
        for folder in folders:
            path = Path(folder.path)
            if str(path.parent) not in directories or not _is_partition(folder):
                continue
            other = known.setdefault(path.name, folder)
            if other is not folder and self._same_broker(other, folder):
                words = f"{other.name} is the same partition"
                self.tell(Finding(folder.name, codes.PARTITION_TWICE, None, words))

    @staticmethod
    def _same_broker(one: Folder, other: Folder) -> bool:
        """Whether two partitions lie in log directories of one broker, as far as they tell."""
        told = []
        for folder in (one, other):
            path = Path(folder.path).parent / "meta.properties"
            try:
                lines = path.read_text().splitlines()
            except (OSError, UnicodeDecodeError):
                return False
            told.append({it for it in lines if it.startswith(("node.id", "broker.id", "cluster"))})
        return bool(told[0]) and told[0] == told[1]


def _is_partition(folder: Folder) -> bool:
    """Whether a broker would load a directory as a partition's."""
    name = folder.path.rstrip("/").rpartition("/")[2]
    has_logs = any(is_segment(folder.input(it)) for it in folder.files)
    return has_logs or (names_partition(name) and bool(folder.files))


def _history_of(folder: Folder) -> PartitionHistory:
    """What follows a partition, with the files beside its logs."""
    epochs = None
    if LEADER_EPOCHS in folder.files:
        with suppress(InputError, CheckpointError, NumberError):
            rows = entries_of(folder.input(LEADER_EPOCHS), EPOCH_TYPES)
            epochs = [(int(epoch), int(start)) for epoch, start in rows]
    names = (it for it in folder.files if it.endswith(".snapshot"))
    files = (folder.input(it) for it in names)
    snapshots = {it.base_offset: it for it in files if it.base_offset is not None}
    return PartitionHistory(epochs, snapshots)
