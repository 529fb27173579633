"""rebuild-index: what a recovering broker writes beside a log.

Where the log is damaged, a broker cuts it; the indexes end there, too. Source:
`org.apache.kafka.storage.internals.log.LogSegment.recover`, `LogLoader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.broker.index import IndexBuilder
from kfmt_cli.broker.producers import Producers
from kfmt_cli.broker.recovery import kept
from kfmt_cli.checks.check import Scope
from kfmt_cli.checks.registry import log_checks
from kfmt_cli.core.finding import Finding, in_order
from kfmt_cli.errors import InputError
from kfmt_cli.files.block import max_timestamps
from kfmt_cli.files.disk import classify
from kfmt_cli.files.kinds.fixed import read_rows
from kfmt_cli.files.kinds.kind import Input
from kfmt_cli.files.kinds.logs import LOG
from kfmt_cli.files.open_log import open_log
from kfmt_cli.formats.index import ABORTED_TRANSACTION
from kfmt_cli.writers import codes


@dataclass(slots=True)
class Rebuilt:
    """The files of a log by name, without their folder; None for one that should not be there."""

    log: Input
    size: int = 0
    batches: int = 0
    entries: int = 0
    has_producers: bool = False
    files: dict[str, bytes | None] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def rebuild(
    logs: list[Input], interval: int, advance: Callable[[int], None], from_nothing: bool = False
) -> Iterator[Rebuilt]:
    """The files of the logs of one partition, which come in their order; raises InputError.

    from_nothing: no producer wrote anything before the first of them.
    """
    producers = Producers(known=from_nothing)
    for i, log in enumerate(logs):
        base = log.base_offset
        if base is None:
            raise InputError(f"{log.name}: its name does not begin with a base offset of 20 digits")
        if not producers.known:
            at_log = _producers_at(log)
            producers = at_log if at_log.known else producers
        before: dict[str, bytes | None] = {}
        if i and producers.end != base:
            # A gap or an overlap. A broker makes a snapshot before it recovers the segment; what is
            # in it comes from all of the earlier segments, where they reach beyond it too.
            producers.end = base
            if producers.known or not producers.of:
                before[_snapshot_name(producers)] = producers.snapshot()
        done = _rebuild(log, interval, producers, advance)
        done.files.update(before)
        _add_snapshot(done, producers, _begins_partition(logs[0]))
        after = logs[i + 1].base_offset if i + 1 < len(logs) else None
        if after not in (None, producers.end):
            # A broker keeps snapshots at the base offsets of segments, and the last one.
            done.files.pop(_snapshot_name(producers), None)
        yield done


def _producers_at(log: Input) -> Producers:
    """The producers at the front of a log.

    There are none at offset 0; elsewhere they are those of its snapshot.
    """
    offset = log.base_offset or 0
    producers = Producers(known=offset == 0, end=offset)
    path = Path(log.path).with_name(f"{offset:020}.snapshot")
    if offset and path.exists():
        rows = read_rows(classify(str(path), path.name))
        if not rows.findings:
            producers.load(rows.table, offset)
            producers.known = True
    return producers


def _begins_partition(log: Input) -> bool:
    """Whether no earlier segment lies beside a log."""
    others = (classify(str(it), it.name) for it in Path(log.path).parent.glob(f"*{LOG.suffix}"))
    return all((it.base_offset or 0) >= (log.base_offset or 0) for it in others)


def _rebuild(
    log: Input, interval: int, producers: Producers, advance: Callable[[int], None]
) -> Rebuilt:
    assert log.base_offset is not None
    done = Rebuilt(log)
    index = IndexBuilder(log.base_offset, interval)
    aborted: list[dict[str, int]] = []
    with open_log(log, read_ahead=True) as opened:
        checks = log_checks(Scope.HEADERS, log.base_offset)
        for block, n in kept(opened.blocks, log.base_offset):
            advance(len(block.data))
            found = [it for check in checks for it in check.take(block, None)]
            done.findings += in_order([*block.findings, *found])
            if n:
                batches = block.batches.select(slice(0, n))
                index.add(batches["position"], batches["last_offset"], max_timestamps(batches))
                aborted += producers.take(block, n)
                of_producers = (batches["producer_id"] >= 0) & (batches["is_v2"] == 1)
                done.has_producers |= bool(of_producers.any())
            done.batches += n
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
    """Add the snapshot behind a log, or say why there is none.

    from_start: whether the logs begin with the first segment that a broker would find. It takes a
    partition that begins at a later offset without a snapshot for one that had no producers.
    """
    if producers.known or (from_start and not producers.of):
        if done.batches:
            done.files[_snapshot_name(producers)] = producers.snapshot()
    elif done.batches:
        done.findings.append(
            Finding(
                done.log.name,
                codes.PRODUCERS_UNKNOWN,
                None,
                "earlier segments are not here, nor is the snapshot at its base offset"
                if from_start
                else "earlier segments are not given, nor is there a snapshot at its base offset",
            )
        )
