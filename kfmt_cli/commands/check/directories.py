"""check: the history of partitions, predicted starts and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.start.brokers import Broker, Next, Replica, group
from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCHS,
    CheckpointError,
    NumberError,
    stored_epochs,
)
from kfmt_cli.broker.start.directory import LogDirectory, directory_at
from kfmt_cli.broker.start.metadata_files import (
    end_of,
    metadata_troubles,
    snapshots_of,
    voters_of,
)
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Start
from kfmt_cli.broker.start.own_files import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    METADATA_LOG,
    RECOVERY_POINTS,
)
from kfmt_cli.broker.version import PredictedFor
from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.history.offsets import Witnesses
from kfmt_cli.checks.history.scopes import HistoryCheck, HistoryFiles
from kfmt_cli.checks.partition.names import not_partitions
from kfmt_cli.checks.registry import checks_of
from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.commands.check.start import starts_of
from kfmt_cli.commands.log_settings import compacts
from kfmt_cli.disk.names import mark_of, parsed_place, partition_folder, place_of, suffix_of
from kfmt_cli.disk.tree import Folder, is_segment
from kfmt_cli.errors import Caught, InputError
from kfmt_cli.findings.damage import BATCH_TRUNCATED, ZERO_TAIL
from kfmt_cli.findings.finding import Finding
from kfmt_cli.topics import CLUSTER_METADATA

# Findings for a log whose end is missing.
_END_MISSING = frozenset({ZERO_TAIL, BATCH_TRUNCATED})


@dataclass(slots=True)
class CheckedPartitions:
    """The directories that were checked, with their reports and the predicted starts."""

    reports: dict[str, CheckedDirectory]
    """By name."""
    tell: Callable[[Finding], None]
    """Reports a finding."""
    report_of: Callable[[str], CheckedDirectory]
    """Returns the report that a file belongs to."""
    unread: Callable[[InputError], None]
    """Reports an input that could not be read."""
    interval: int
    directories: dict[str, LogDirectory]
    """The log directories among them, by path."""
    wanted: PredictedFor | None
    """The version that the user named."""
    starts: list[Start] = field(default_factory=list)
    nexts: list[Next] = field(default_factory=list)
    """The next start of each log directory."""
    brokers: list[Broker] = field(default_factory=list)
    missing: list[tuple[str, list[str]]] = field(default_factory=list)
    """The lines of each missing meta.properties, with the path of its directory."""
    _around: dict[str, LogDirectory] = field(default_factory=dict)
    _above_of: dict[str, LogDirectory] = field(default_factory=dict)
    _epochs: dict[str, list[tuple[int, int]] | None] = field(default_factory=dict)
    """The leader epochs of each partition with logs, by path."""

    def histories_of(self, folder: Folder) -> list[HistoryCheck]:
        """The history checks for the logs of a partition and the files next to them."""
        epochs = self._epochs[folder.path] = self._read_epochs(folder)
        named = (folder.input(name) for name in folder.readable if name.endswith(".snapshot"))
        snapshots = {file.base_offset: file for file in named if file.base_offset is not None}
        files = HistoryFiles(epochs, snapshots, self._log_start(folder), self.unread)
        return [check_type(files) for check_type in checks_of(Scope.HISTORY)]

    def predict(self, folders: list[Folder], given: frozenset[str]) -> None:
        """Predict the start of each broker: what prevents it, and the effect on each partition.

        given: the paths of the directories that the user named.
        """
        below: dict[str, list[Folder]] = {}
        for folder in folders:
            directory = self.directories.get(str(Path(folder.path)))
            if directory is not None:
                odd = not_partitions(folder)
                directory.troubles += (
                    (finding.file, f"{finding.file}: {finding.message}") for finding in odd
                )
            above = self._above(folder)
            if not _is_partition(folder, is_inside=above.path in self.directories):
                continue
            if Path(folder.path).name == METADATA_LOG:
                above.early += metadata_troubles(folder, above.unread)
            below.setdefault(above.path, []).append(folder)
        above_only = (directory for path, directory in self._around.items() if path in below)
        for broker in group([*self.directories.values(), *above_only], given):
            broker.find_version(self.wanted)
            for directory in broker.directories:
                directory.replicas = [
                    self._replica(folder, directory, broker.kafka)
                    for folder in below.get(directory.path, [])
                ]
            self.brokers.append(broker)
            self._start_metadata(broker)
            self.missing += broker.missing_identities()
            troubles = broker.judge()
            for check in checks_of(Scope.BROKERS):
                self._tell_all(check().look(broker))
            self.starts += troubles
            self._of_broker(broker, troubles)

    def _replica(self, folder: Folder, above: LogDirectory, kafka: PredictedFor) -> Replica:
        """A partition with its predicted starts."""
        report = self.reports[folder.name]
        report.marker = above.marker
        found: list[Start] = []
        with Caught(self.unread):
            found += starts_of(folder, report, above, self.interval, kafka)
        held = [(first, end - 1) for first, end in report.extents.values() if end > first]
        return Replica(folder, report.shown, {start.after: start for start in found}, held)

    def _of_broker(self, broker: Broker, troubles: list[Start]) -> None:
        """Record the starts on a broker's partitions, and the next start of each log directory."""
        reasons: list[str] = []
        for directory in broker.directories:
            after = CRASH if directory.marker is None else CLEAN
            reasons += (
                trouble.reason for trouble in troubles if trouble.after == after and trouble.reason
            )
            for replica in directory.replicas:
                for start in replica.starts.values():
                    if start.after == after and not start.starts and start.reason:
                        reasons.append(start.reason)
                    if start.harms or not suffix_of(replica.name):
                        self.reports[replica.folder.name].starts.append(start)
                        self.starts.append(start)
        for directory in broker.directories:
            if directory.is_listed:
                self.nexts.append(broker.next_start(directory, reasons))

    def _log_start(self, folder: Folder) -> int:
        """The log start offset of a partition; 0 if unknown."""
        topic, number = place_of(partition_folder(folder.path).name)
        if topic is None:
            return 0
        if topic == CLUSTER_METADATA:  # it begins at the oldest snapshot
            ends = (end_of(file) or 0 for file in snapshots_of(folder))
            return next(ends, 0)
        return self._above(folder).offset(LOG_STARTS, (topic, number or 0))

    def _above(self, folder: Folder) -> LogDirectory:
        """The log directory of a partition, even if only the partition was given."""
        known = self._above_of.get(folder.path)
        if known is None:
            known = self._above_of[folder.path] = self._find_above(folder)
        return known

    def _find_above(self, folder: Folder) -> LogDirectory:
        # The parent of . is not the one the path names.
        near, above = Path(folder.path).parent, partition_folder(folder.path).parent
        path = str(near if os.path.realpath(near) == os.path.realpath(above) else above)
        known = self.directories.get(path) or self._around.get(path)
        if known is None:
            known = self._around[path] = directory_at(above)
            known.path = path
        return known

    def losses(self, folders: list[Folder]) -> None:
        """Record offsets that are already lost, and report the evidence."""
        for folder in folders:
            report = self.reports[folder.name]
            above = self._above(folder)
            if not _is_partition(folder, is_inside=above.path in self.directories):
                continue
            named = partition_folder(folder.path)
            place = place_of(named.name)
            key = (place[0] or "", place[1] or 0)
            is_named = _is_in_checkpoints(folder)
            checkpoints = (RECOVERY_POINTS, HIGH_WATERMARKS) if is_named else ()
            told = {name: above.offset(name, key) for name in checkpoints}
            is_compacted = None
            with Caught(self.unread):
                is_compacted = compacts(place[0], named.parent)
            damaged = frozenset(
                folder.input(Path(finding.file).name).base
                for finding in report.errors_in_logs
                if finding.code not in _END_MISSING
            )
            log_start = above.offset(LOG_STARTS, key) if is_named else 0
            epochs = self._epochs.get(folder.path)
            known = Witnesses(
                *(report.shown, folder, report.extents, told, log_start, is_compacted),
                *(max((start for _, start in epochs or ()), default=None), damaged),
            )
            report.lost += ((first, last) for first, last, _ in known.lost)
            for check in checks_of(Scope.OFFSETS):
                self._tell_all(check().look(known))

    def checkpoints(self, folders: list[Folder]) -> None:
        """Check offsets in checkpoints against the logs, and failing starts against findings."""
        for folder in folders:
            directory = self.directories.get(str(Path(folder.path)))
            if directory is not None:
                below = [
                    inner
                    for inner in folders
                    if Path(inner.path).parent == Path(folder.path) and _is_in_checkpoints(inner)
                ]
                extents = {
                    place_of(folder.path.rpartition("/")[2]): self.reports[folder.name].extents
                    for folder in below
                }
                proven = {
                    place_of(folder.path.rpartition("/")[2]): lost[-1][1] + 1
                    for folder in below
                    if (lost := self.reports[folder.name].lost)
                }
                for check in checks_of(Scope.CHECKPOINTS):
                    self._tell_all(check().look(folder, directory, extents, proven))
        for start in self.starts:
            for check in checks_of(Scope.STARTS):
                self._tell_all(check().look(start, self.report_of(start.file).all))

    def tell_unread(self) -> None:
        """Report the files that could not be read for the predictions."""
        for directory in (*self.directories.values(), *self._around.values()):
            for error in directory.unread:
                self.unread(error)

    def _start_metadata(self, broker: Broker) -> None:
        """Set whether the metadata log loads, and its ends if no other controller can restore
        lost offsets."""
        for replica in broker.directories[0].replicas:
            if replica.name != METADATA_LOG:
                continue
            broker.metadata_fails = not all(start.starts for start in replica.starts.values())
            if self._is_alone(replica.folder):
                ends = {kind: start.log_end_offset for kind, start in replica.starts.items()}
                broker.metadata_ends = {kind: end for kind, end in ends.items() if end is not None}

    def _is_alone(self, folder: Folder) -> bool:
        """Whether no other replica of the metadata log can restore truncated records."""
        with Caught(self.unread):
            return len(voters_of(folder)) == 1
        return False

    def _read_epochs(self, folder: Folder) -> list[tuple[int, int]] | None:
        """The leader epochs of a partition; None if there are none, or no broker can read them."""
        if LEADER_EPOCHS in folder.readable:
            with Caught(self.unread), suppress(CheckpointError, NumberError):
                return stored_epochs(folder.input(LEADER_EPOCHS))
        return None

    def _tell_all(self, found: Iterable[Finding]) -> None:
        for finding in list(found):
            self.tell(finding)


def _is_in_checkpoints(folder: Folder) -> bool:
    """Whether checkpoints can name a partition's directory: one that is marked as deleted or stray
    is in none, and another may have its name."""
    return mark_of(folder.path.rstrip("/")) not in ("delete", "stray")


def _is_partition(folder: Folder, *, is_inside: bool) -> bool:
    """Whether a broker would load a directory as a partition. is_inside: it is in a log
    directory, where even an empty one is a partition."""
    name = folder.path.rstrip("/").rpartition("/")[2]
    has_logs = any(is_segment(folder.input(file)) for file in folder.files)
    return has_logs or (parsed_place(name) is not None and (is_inside or bool(folder.files)))
