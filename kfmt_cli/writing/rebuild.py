"""rebuild-index: the files that a recovering broker writes next to a log.

A broker truncates a damaged log at the damage; the indexes end there too. Source:
`org.apache.kafka.storage.internals.log.LogSegment.recover`, `LogLoader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.broker.index import IndexBuilder
from kfmt_cli.broker.recovery import kept
from kfmt_cli.broker.start.recovered import recovered
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.broker.transactions.producers import Producers
from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.registry import log_checks
from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import is_file
from kfmt_cli.disk.tree import Folder, classify, listing
from kfmt_cli.errors import InputError
from kfmt_cli.findings.files import PRODUCERS_UNKNOWN
from kfmt_cli.findings.finding import Finding, has_errors, in_order
from kfmt_cli.formats.index import ABORTED_TRANSACTION
from kfmt_cli.log.block import max_timestamps
from kfmt_cli.log.open_log import open_log
from kfmt_cli.writing.salvage.holes import Gaps


@dataclass(slots=True)
class Rebuilt:
    """The rebuilt files of a log, by name without folder; None for a file that must not exist."""

    log: Input
    size: int = 0
    batches: int = 0
    entries: int = 0
    has_producers: bool = False
    is_kept: bool = True
    """Whether a recovering broker keeps the whole log."""
    files: dict[str, bytes | None] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class How:
    """The settings of the broker whose rebuild is reproduced."""

    interval: int = INDEX_INTERVAL_BYTES
    """index.interval.bytes."""
    expired_before: int | None = None
    """Producers with no write after this time in ms are expired; None expires none."""
    is_damage_cut: bool = False
    """Whether to predict the whole broker start if a log would not be kept as it is."""
    as_started: bool = False
    """Whether to write what a start after a crash leaves, with the files that are there now;
    otherwise that of a broker that finds no indexes."""


def rebuild(
    logs: list[Input],
    how: How,
    advance: Callable[[int], None],
    *,
    from_nothing: bool = False,
    swaps: Sequence[Input] = (),
    gaps: Gaps | None = None,
) -> Iterator[Rebuilt]:
    """Rebuild the files of the logs of one partition, given in order; raises InputError.

    from_nothing: whether no producer wrote before the first log. swaps: completed files of an
    interrupted segment replacement, which a broker applies first. gaps: receives the batches kept.
    """
    producers = Producers(known=from_nothing)
    exact = _Exact(logs, swaps, how) if how.as_started and logs else None
    for i, log in enumerate(logs):
        base = log.base_offset
        if base is None:
            raise InputError(f"{log.name}: its name does not begin with a base offset of 20 digits")
        if not producers.known:
            at_log = _producers_at(log)
            producers = at_log if at_log.known else producers
        if how.expired_before is not None:
            producers.expire(how.expired_before)
        before: dict[str, bytes | None] = {}
        if i and producers.end != base:
            # A gap or an overlap. A broker writes a snapshot before it recovers the segment, with
            # the state after all earlier segments, even if they reach beyond its base offset.
            producers.end = base
            if producers.known or not producers.of:
                before[_snapshot_name(producers)] = producers.snapshot()
        done = _rebuild(log, how.interval, producers, advance, gaps)
        done.files.update(before)
        _add_snapshot(done, producers, _begins_partition(logs[0]))
        after = logs[i + 1].base_offset if i + 1 < len(logs) else None
        overlaps = after is not None and producers.end > after
        is_odd = bool(swaps) or overlaps or not done.is_kept
        if exact is None and is_odd and how.is_damage_cut:
            exact = _Exact(logs, swaps, how)
            exact.put(done, 0 if i == 0 else base, after)
            done.files.update(before)
        elif exact is not None:
            exact.put(done, 0 if i == 0 and how.as_started else base, after)
        elif after not in (None, producers.end):
            # A broker keeps the snapshots at base offsets of segments, and the last one.
            done.files.pop(_snapshot_name(producers), None)
        yield done


class _Exact:
    """The files after a broker start on the logs; raises InputError."""

    def __init__(self, logs: Sequence[Input], swaps: Sequence[Input], how: How) -> None:
        first = Path(logs[0].path)
        given = {Path(file.path).name for file in (*logs, *swaps)}
        snapshot = first.with_name(f"{logs[0].base_offset:020}{PRODUCER_SNAPSHOT.suffix}")
        if is_file(str(snapshot)):
            given.add(snapshot.name)
        below = logs[0].name.removesuffix(first.name).rstrip("/") or "."
        if how.as_started:
            given.update(listing(str(first.parent)).readable)
        folder = Folder(str(first.parent), below, (), tuple(sorted(given)))
        try:
            self._left, self._snapshots = recovered(folder, how.interval, how.expired_before)
        except StartFailed as error:
            raise InputError(f"a broker would not start on these logs: {error}") from error

    def put(self, done: Rebuilt, first: int, end: int | None) -> None:
        """Set a log's files to those of the remaining segments from one offset up to another."""
        done.files.clear()
        done.entries = 0
        for segment in self._left:
            if segment.base >= first and (end is None or segment.base < end):
                done.files |= segment.files
                done.entries += segment.entries
        if any(finding.code is PRODUCERS_UNKNOWN for finding in done.findings):
            return
        for offset, content in self._snapshots.items():
            if offset > first and (end is None or offset <= end):
                done.files[f"{offset:020}{PRODUCER_SNAPSHOT.suffix}"] = content


def _producers_at(log: Input) -> Producers:
    """The producer state at the front of a log: empty at offset 0, else from its snapshot."""
    offset = log.base
    producers = Producers(known=offset == 0, end=offset)
    path = Path(log.path).with_name(f"{offset:020}.snapshot")
    if offset and is_file(str(path)):
        rows = classify(str(path), path.name).contents()
        if not rows.findings:
            producers.load(rows.table, offset)
            producers.known = True
    return producers


def _begins_partition(log: Input) -> bool:
    """Whether the directory of a log has no earlier segment; raises InputError."""
    first = next(iter(listing(str(Path(log.path).parent)).logs), log)
    return first.base >= log.base


def _rebuild(
    log: Input,
    interval: int,
    producers: Producers,
    advance: Callable[[int], None],
    gaps: Gaps | None,
) -> Rebuilt:
    assert log.base_offset is not None
    done = Rebuilt(log)
    index = IndexBuilder(log.base_offset, interval)
    aborted: list[dict[str, int]] = []
    with open_log(log, read_ahead=True) as opened:
        checks = log_checks(Scope.HEADERS, log.base_offset)
        for block, n in kept(opened.blocks, log.base_offset):
            advance(len(block.data))
            found = [finding for check in checks for finding in check.take(block, None)]
            done.findings += in_order([*block.findings, *found])
            if n:
                batches = block.batches.select(slice(0, n))
                index.add(batches.position, batches.last_offset, max_timestamps(batches))
                aborted += producers.take(block, n)
                of_producers = (batches.producer_id >= 0) & (batches.is_v2 == 1)
                done.has_producers |= bool(of_producers.any())
                if gaps is not None:
                    gaps.take(batches)
            done.batches += n
            done.is_kept &= n == len(block.batches) and not has_errors(block.findings)
        done.size = opened.reader.bytes_read
    stem = Path(log.path).name.split(".", 1)[0]
    done.files[f"{stem}.index"] = index.offset_index()
    done.files[f"{stem}.timeindex"] = index.time_index()
    done.entries = index.n_entries
    done.files[f"{stem}.txnindex"] = b"".join(map(ABORTED_TRANSACTION.write, aborted)) or None
    return done


def _snapshot_name(producers: Producers) -> str:
    return f"{producers.end:020}.snapshot"


def _add_snapshot(done: Rebuilt, producers: Producers, from_start: bool) -> None:
    """Add the snapshot after a log, or a finding if it cannot be written.

    from_start: whether the logs begin with the first segment that a broker would find. If such a
    partition begins at a later offset without a snapshot, a broker assumes it had no producers.
    """
    if producers.known or (from_start and not producers.of):
        if done.batches:
            done.files[_snapshot_name(producers)] = producers.snapshot()
    elif done.batches:
        done.findings.append(
            Finding(
                done.log.name,
                PRODUCERS_UNKNOWN,
                None,
                "earlier segments are missing, and so is the snapshot at its base offset"
                if from_start
                else "earlier segments were not given, and there is no snapshot at its base offset",
            )
        )
