"""check: what a broker would make of each partition, after a crash and after a clean shutdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kfmt_cli.broker.start.checkpoints import LOG_STARTS, RECOVERY_POINTS
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.load import KnownLogs
from kfmt_cli.broker.start.outcome import CLEAN, CRASH, Read, Start, start_of
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX
from kfmt_cli.disk.kinds.kind import Level
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.disk.names import mark_of, place_of
from kfmt_cli.disk.tree import Folder, is_segment
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.topics import CLUSTER_METADATA

# The versions of brokers that were seen to do what is foretold.
OBSERVED_ON = ("3.9.1",)


@dataclass(slots=True)
class PartitionFacts:
    """What is known of a partition when its logs have been checked."""

    folder: Folder
    shown: str
    extents: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first offset and the end of each log by its base offset, of what is undamaged."""
    findings: list[Finding] = field(default_factory=list)
    """About its files."""
    has_transactions: bool = False


def starts_of(facts: PartitionFacts, directory: LogDirectory, interval: int) -> Iterator[Start]:
    """The two starts on a partition; raises InputError."""
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
            yield Start(facts.shown, after, log_start_offset=first, log_end_offset=plain)
            continue
        odd = _odd(facts) if odd is None else odd
        found = KnownLogs(
            folder,
            # The metadata log is recovered whatever the marker says.
            is_clean=after == CLEAN and not of_quorum,
            recovery_point=0 if of_quorum else point,
            log_start=log_start,
            sound=_sound(facts),
            trusted=_trusted(facts),
            has_transactions=facts.has_transactions,
            interval=interval,
        )
        start = start_of(facts.shown, found, odd, read)
        start.after = after
        yield start


def _plain_end(facts: PartitionFacts, log_start: int) -> int | None:
    """The log end of a partition in which nothing at all is odd; None for any other."""
    logs = [log for log in facts.folder.logs if is_segment(log)]
    if facts.findings or not logs or mark_of(facts.folder.path) or facts.folder.folders:
        return None
    if not all(map(_is_ordinary, facts.folder.files)):
        return None
    _, end = facts.extents.get(logs[-1].base_offset or 0, (0, -1))
    return end if end >= max(log_start, 0) else None


def _is_ordinary(name: str) -> bool:
    """Whether a file is one that a start has no questions about."""
    kind, base_offset, transient = kind_of(name)
    of_segment = kind.level is Level.SEGMENT and kind is not KRAFT_SNAPSHOT
    return not transient and (base_offset is not None or not of_segment)


def _sound(facts: PartitionFacts) -> Mapping[int, tuple[int, int]]:
    """The extents of the logs in which nothing is wrong."""
    wrong = {
        finding.file for finding in facts.findings if finding.code.severity is not Severity.NOTE
    }
    bases = {log.base_offset for log in facts.folder.logs if log.name not in wrong}
    return {base: its for base, its in facts.extents.items() if base in bases}


def _odd(facts: PartitionFacts) -> dict[int, frozenset[int]]:
    """The places of a partition's logs about which there are findings, by log."""
    bases = {log.name: log.base_offset or 0 for log in facts.folder.logs}
    odd: dict[int, set[int]] = {}
    for finding in facts.findings:
        if finding.file in bases and finding.position is not None:
            odd.setdefault(bases[finding.file], set()).add(finding.position)
    return {base: frozenset(its) for base, its in odd.items()}


def _trusted(facts: PartitionFacts) -> frozenset[int]:
    """The base offsets of segments whose offset index is there, and right."""
    wrong = {
        finding.file for finding in facts.findings if finding.code.severity is not Severity.NOTE
    }
    files = map(facts.folder.input, facts.folder.files)
    return frozenset(
        file.base_offset or 0
        for file in files
        if file.kind is OFFSET_INDEX and file.name not in wrong
    )


def start_row(start: Start) -> dict[str, object]:
    """A start as the JSON contract has it, without its type."""
    return {
        "file": start.file,
        "after": start.after,
        "starts": start.starts,
        "reason": start.reason,
        "log_start_offset": start.log_start_offset,
        "log_end_offset": start.log_end_offset,
        "cut": [{"file": file, "size": size} for file, size in start.cut],
        "deleted": start.deleted,
        "lost_offsets": [list(range_) for range_ in start.lost],
        "unreachable_offsets": [list(range_) for range_ in start.unreachable],
        "becomes": start.becomes,
        "observed_on": list(OBSERVED_ON),
    }
