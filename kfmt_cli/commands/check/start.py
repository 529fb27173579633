"""check: predicts the start of each partition, after a crash and after a clean shutdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.load import KnownLogs
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Read, Start, start_of
from kfmt_cli.broker.start.own_files import LOG_STARTS, RECOVERY_POINTS
from kfmt_cli.broker.start.ranges import as_lists
from kfmt_cli.broker.version import PredictedFor
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX
from kfmt_cli.disk.kinds.kind import Level
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.disk.names import mark_of, place_of
from kfmt_cli.disk.tree import Folder, is_segment
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.topics import CLUSTER_METADATA


@dataclass(slots=True)
class PartitionFacts:
    """Facts about a partition, known once its logs are checked."""

    folder: Folder
    shown: str
    extents: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First offset and end offset of the undamaged part of each log, by base offset."""
    findings: list[Finding] = field(default_factory=list)
    """Findings about its files."""
    has_transactions: bool = False


def starts_of(
    facts: PartitionFacts, directory: LogDirectory, interval: int, kafka: PredictedFor
) -> Iterator[Start]:
    """The predicted starts of a partition, after a crash and clean; raises InputError."""
    folder = replace(facts.folder, prefix=f"{facts.shown}/")
    name = folder.path.rstrip("/").rpartition("/")[2]
    topic, number = place_of(name)
    place = (topic or "", number or 0)
    log_start = directory.offset(LOG_STARTS, place)
    point = directory.offset(RECOVERY_POINTS, place)
    plain = _plain_end(facts, log_start)
    of_quorum = topic == CLUSTER_METADATA
    odd: dict[int, frozenset[int]] | None = None
    read: Read = {}
    for after in (CRASH, CLEAN):
        if plain is not None:
            first = max(log_start, min(facts.extents))
            yield Start(
                facts.shown, after, log_start_offset=first, log_end_offset=plain, kafka=kafka
            )
            continue
        odd = _odd(facts) if odd is None else odd
        found = KnownLogs(
            folder,
            # The metadata log is always recovered, even with a marker.
            is_clean=after == CLEAN and not of_quorum,
            version=kafka.version,
            recovery_point=0 if of_quorum else point,
            log_start=log_start,
            sound=_sound(facts),
            trusted=_trusted(facts),
            has_transactions=facts.has_transactions,
            interval=interval,
        )
        start = start_of(facts.shown, found, odd, read)
        start.after, start.kafka = after, kafka
        yield start


def _plain_end(facts: PartitionFacts, log_start: int) -> int | None:
    """Log end offset of a partition with nothing unusual; otherwise None."""
    logs = [log for log in facts.folder.logs if is_segment(log)]
    if facts.findings or not logs or mark_of(facts.folder.path) or facts.folder.folders:
        return None
    if not all(map(_is_ordinary, facts.folder.files)):
        return None
    _, end = facts.extents.get(logs[-1].base, (0, -1))
    return end if end >= max(log_start, 0) else None


def _is_ordinary(name: str) -> bool:
    """Whether a start handles a file by its ordinary rules."""
    kind, base_offset, transient = kind_of(name)
    of_segment = kind.level is Level.SEGMENT and kind is not KRAFT_SNAPSHOT
    return not transient and (base_offset is not None or not of_segment)


def _sound(facts: PartitionFacts) -> Mapping[int, tuple[int, int]]:
    """The extents of the logs without findings above a note."""
    wrong = {
        finding.file for finding in facts.findings if finding.code.severity is not Severity.NOTE
    }
    bases = {log.base_offset for log in facts.folder.logs if log.name not in wrong}
    return {base: its for base, its in facts.extents.items() if base in bases}


def _odd(facts: PartitionFacts) -> dict[int, frozenset[int]]:
    """Positions of the findings in a partition's logs, by base offset."""
    bases = {log.name: log.base for log in facts.folder.logs}
    odd: dict[int, set[int]] = {}
    for finding in facts.findings:
        if finding.file in bases and finding.position is not None:
            odd.setdefault(bases[finding.file], set()).add(finding.position)
    return {base: frozenset(its) for base, its in odd.items()}


def _trusted(facts: PartitionFacts) -> frozenset[int]:
    """Base offsets of segments that have an intact offset index."""
    wrong = {
        finding.file for finding in facts.findings if finding.code.severity is not Severity.NOTE
    }
    files = map(facts.folder.input, facts.folder.files)
    return frozenset(
        file.base for file in files if file.kind is OFFSET_INDEX and file.name not in wrong
    )


def start_row(start: Start) -> dict[str, object]:
    """A start as an object of the JSON contract, without its type."""
    return {
        "file": start.file,
        "after": start.after,
        "starts": start.starts,
        "reason": start.reason,
        "log_start_offset": start.log_start_offset,
        "log_end_offset": start.log_end_offset,
        "cut": [{"file": file, "size": size} for file, size in start.cut],
        "deleted": start.deleted,
        "lost_offsets": as_lists(start.lost),
        "unreachable_offsets": as_lists(start.unreachable),
        "becomes": start.becomes,
        **start.kafka.row,
    }
