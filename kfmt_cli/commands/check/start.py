"""check: predicts the start of each partition, after a crash and after a clean shutdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.load import KnownLogs
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Read, Start, predict
from kfmt_cli.broker.start.own_files import LOG_STARTS, RECOVERY_POINTS
from kfmt_cli.broker.start.ranges import as_lists
from kfmt_cli.broker.version import PredictedFor
from kfmt_cli.commands.check.checked_directory import CheckedDirectory
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX
from kfmt_cli.disk.kinds.kind import Level
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.disk.names import mark_of, place_of
from kfmt_cli.disk.tree import Folder
from kfmt_cli.findings.finding import Severity
from kfmt_cli.rows.documents import BROKER_START
from kfmt_cli.topics import CLUSTER_METADATA


def starts_of(
    folder: Folder,
    report: CheckedDirectory,
    directory: LogDirectory,
    interval: int,
    kafka: PredictedFor,
) -> Iterator[Start]:
    """The predicted starts of a partition whose logs are checked, after a crash and clean; raises
    InputError."""
    name = folder.path.rstrip("/").rpartition("/")[2]
    topic, number = place_of(name)
    place = (topic or "", number or 0)
    log_start = directory.offset(LOG_STARTS, place)
    point = directory.offset(RECOVERY_POINTS, place)
    plain = _plain_end(folder, report, log_start)
    if plain is not None:
        first = max(log_start, min(report.extents))
        for after in (CRASH, CLEAN):
            yield Start(
                report.shown, after, log_start_offset=first, log_end_offset=plain, kafka=kafka
            )
        return
    of_quorum = topic == CLUSTER_METADATA
    wrong = {finding.file for finding in report.all if finding.code.severity is not Severity.NOTE}
    sound = {log.base for log in folder.logs if log.name not in wrong}
    indexes = (file for file in map(folder.input, folder.files) if file.kind is OFFSET_INDEX)
    trusted = frozenset(file.base for file in indexes if file.name not in wrong)
    odd = _odd(folder, report)
    read: Read = {}
    for after in (CRASH, CLEAN):
        found = KnownLogs(
            replace(folder, prefix=f"{report.shown}/"),
            # The metadata log is always recovered, even with a marker.
            is_clean=after == CLEAN and not of_quorum,
            version=kafka.version,
            recovery_point=0 if of_quorum else point,
            log_start=log_start,
            sound={base: its for base, its in report.extents.items() if base in sound},
            trusted=trusted,
            has_transactions=report.has_transactions,
            interval=interval,
        )
        start = Start(report.shown, after, kafka=kafka)
        predict(start, found, odd, read)
        yield start


def _plain_end(folder: Folder, report: CheckedDirectory, log_start: int) -> int | None:
    """Log end offset of a partition with nothing unusual; otherwise None."""
    logs = folder.logs
    if report.all or not logs or mark_of(folder.path) or folder.folders:
        return None
    if not all(map(_is_ordinary, folder.files)):
        return None
    _, end = report.extents.get(logs[-1].base, (0, -1))
    return end if end >= max(log_start, 0) else None


def _is_ordinary(name: str) -> bool:
    """Whether a start handles a file by its ordinary rules."""
    kind, base_offset, transient = kind_of(name)
    of_segment = kind.level is Level.SEGMENT and kind is not KRAFT_SNAPSHOT
    return not transient and (base_offset is not None or not of_segment)


def _odd(folder: Folder, report: CheckedDirectory) -> dict[int, frozenset[int]]:
    """Positions of the findings in a partition's logs, by base offset."""
    bases = {log.name: log.base for log in folder.logs}
    odd: dict[int, set[int]] = {}
    for finding in report.all:
        if finding.file in bases and finding.position is not None:
            odd.setdefault(bases[finding.file], set()).add(finding.position)
    return {base: frozenset(its) for base, its in odd.items()}


def start_row(start: Start) -> dict[str, object]:
    """A start as an object of the JSON contract, without its type."""
    return {
        **BROKER_START.members_of(start),
        "cut": [{"file": file, "size": size} for file, size in start.cut],
        "lost_offsets": as_lists(start.lost),
        "unreachable_offsets": as_lists(start.unreachable),
        **start.kafka.row,
    }
