"""Groups records without batch lines, as the options say.

The facts of a record are the values that all records of a batch must share; a batch ends where they
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.formats.batch import CONTROL, TRANSACTIONAL
from kfmt_cli.log.records import Records
from kfmt_cli.writing.batches import DraftTable
from kfmt_cli.writing.build.drafts import APPEND_TIME, Open, cut, draft
from kfmt_cli.writing.build.jsonl import Record, wrong
from kfmt_cli.writing.build.open_partition import OpenPartition, check_offsets
from kfmt_cli.writing.build.options import Options
from kfmt_cli.writing.build.parse import integers, records_of


@dataclass(frozen=True, slots=True)
class Plan:
    """Records and their planned batches."""

    goes_on: Records | None
    """The records that continue the previous batch."""
    drafts: DraftTable
    """The new batches, as `growing.Growing.add` takes them."""
    records: Records
    """Their records, as `growing.Growing.add` takes them."""


def plan_loose(
    lines: Sequence[Record], options: Options, partition: OpenPartition, begun: Open | None
) -> Plan:
    """Plan the batches of some records; raises LineError. begun: the previous batch, if open."""
    chosen = list(lines)
    offsets = counted(chosen, partition.next_offset)
    check_offsets(chosen, offsets, partition.last_offset)
    times = integers(chosen, "timestamp", options.now)
    records = records_of(chosen, offsets, times, options.timestamp_type or 0)
    rows = records.rows
    if options.timestamp_type is not None:
        rows.timestamp_type = options.timestamp_type
    producers, epochs, control, transactional = _producers(chosen, options)
    facts = np.array(
        [
            rows.timestamp_type,
            # A batch has only one LogAppendTime.
            np.where(rows.timestamp_type == APPEND_TIME, rows.timestamp, 0),
            producers,
            epochs,
            control,
            transactional,
        ]
    )
    before = partition.facts if begun is not None else None
    parted = np.ones(len(rows), np.bool_)
    parted[1:] = (facts[:, 1:] != facts[:, :-1]).any(axis=0)
    if before is not None:
        parted[0] = (facts[:, 0] != before).any()
    parted |= control == 1
    partition.facts = facts[:, -1].copy()
    partition.last_offset = partition.last_record = int(offsets[-1])
    firsts = cut(rows, parted, control == 0, options.bounds, None if parted[0] else begun)
    n = int(firsts[0]) if len(firsts) else len(rows)
    goes_on = None
    if n:
        goes_on = Records(records.data, rows.select(slice(0, n)), records.headers, np.array([n]))
        partition.count(int(producers[0]), n)
    records.rows = rows.select(slice(n, None)) if n else rows
    records.ends = np.append(firsts[1:], len(rows))[: len(firsts)] - n
    drafts = draft(records.rows, firsts - n, np.where(control[firsts] == 1, 0, options.codec or 0))
    drafts.magic = 2 if options.magic is None else options.magic
    drafts.producer_id = producers[firsts]
    drafts.producer_epoch = epochs[firsts]
    marked = control[firsts] | (transactional[firsts] & (producers[firsts] >= 0))
    drafts.attributes |= marked * TRANSACTIONAL.mask | control[firsts] * CONTROL.mask
    counts = records.counts
    drafts.base_sequence = partition.count_each(producers[firsts], control[firsts] == 1, counts)
    drafts.number = rows["line"][firsts]
    drafts.declared = -1
    return Plan(goes_on, drafts, records)


def _producers(
    lines: Sequence[Record], options: Options
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """For each record: producer id and epoch, whether it is a control record, or transactional."""
    n = len(lines)
    epoch = options.producer_epoch or 0
    producers = integers(lines, "producer_id", -1)
    if options.producer_id is not None:
        producers = np.full(n, options.producer_id)
    epochs = integers(lines, "producer_epoch", lambda i: epoch if producers[i] >= 0 else -1, 16)
    if options.producer_epoch is not None:
        epochs = np.where(producers >= 0, options.producer_epoch, epochs)
    control = np.array([line.control is not None for line in lines], np.int64)
    transactional = np.array([bool(line.transactional) for line in lines], np.int64)
    if options.transactional:
        transactional[:] = 1
    lost = np.flatnonzero((transactional == 1) & (producers < 0))
    if len(lost):
        raise wrong(lines[int(lost[0])], "the record is transactional, but has no producer_id")
    return producers, epochs, control, transactional


def counted(lines: Sequence[Record], start: int) -> IntArray:
    """The offsets; a missing one follows the previous offset."""
    following = []
    for line in lines:
        following.append(start)
        start = (start if line.offset is None else line.offset) + 1
    return integers(lines, "offset", lambda i: following[i])
