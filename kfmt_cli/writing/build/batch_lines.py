"""Plans batches from batch lines: the grouping of records, and the header fields.

Fields missing from a line follow from its records; options override the line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.formats.batch import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    MAX_SEQUENCE,
    TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
)
from kfmt_cli.log.block import NO_TIMESTAMP
from kfmt_cli.log.records import Records
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.writing.batches import CODEC_MASK, DraftTable
from kfmt_cli.writing.build.drafts import MAX_DELTA, MAX_OFFSET, Open, cut
from kfmt_cli.writing.build.jsonl import AttributesOfLine, Batch, Record, wrong
from kfmt_cli.writing.build.loose import Plan, counted
from kfmt_cli.writing.build.open_partition import OpenPartition, check_base_offset, check_offsets
from kfmt_cli.writing.build.options import Options
from kfmt_cli.writing.build.parse import field_of, integers, records_of

NO_TYPE = "NoTimestampType"  # a dump's value for magic 0


def plan_batches(
    lines: Sequence[Batch],
    chosen: Sequence[Record],
    counts: IntArray,
    options: Options,
    partition: OpenPartition,
) -> Plan:
    """Plan the batches of some lines; raises LineError. counts: the number of records per line."""
    _check_producers(chosen)
    bases, offsets = _resolve(lines, chosen, counts.tolist(), partition.next_offset)
    check_offsets(chosen, offsets, -1)
    owner = np.repeat(np.arange(len(lines)), counts)
    times = integers(chosen, "timestamp", lambda i: _time_of(lines[int(owner[i])]))
    records = records_of(chosen, offsets, times, 0)
    records.ends = np.cumsum(counts)
    drafts = _headers(lines, bases, records, counts, options)
    before = partition.last_offset
    lasts = drafts.base_offset + drafts.last_offset_delta
    for line, base, last in zip(lines, bases.tolist(), lasts.tolist(), strict=True):
        check_base_offset(line, base, before)
        before = last
    partition.last_offset = before
    partition.last_record = int(offsets[-1]) if len(offsets) else before
    if options.given_bounds is None:
        _check_far(records.rows, bases[owner])
    else:
        drafts, records = _within_bounds(drafts, records, owner, options)
    _count_producer(drafts, records.counts, options, partition)
    return Plan(None, drafts, records)


def plan_more(
    line: Batch,
    chosen: Sequence[Record],
    begun: Open,
    options: Options,
    partition: OpenPartition,
) -> Plan:
    """Plan more records of a batch line that is already planned; raises LineError.

    begun: the line's last batch, which may grow.
    """
    draft = begun.draft
    _check_producers(chosen)
    offsets = counted(chosen, partition.last_record + 1)
    check_offsets(chosen, offsets, partition.last_record)
    times = integers(chosen, "timestamp", lambda _: _time_of(line))
    records = records_of(chosen, offsets, times, 0)
    rows, n = records.rows, len(chosen)
    control = bool(draft.attributes[0] & CONTROL.mask)
    firsts: IntArray = np.zeros(0, np.int64)
    if options.given_bounds is None:
        _check_far(rows, draft.base_offset)
    else:
        loose = np.full(n, not control)
        firsts = cut(rows, np.zeros(n, np.bool_), loose, options.given_bounds, begun)
    partition.last_record = int(offsets[-1])
    partition.last_offset = max(partition.last_offset, partition.last_record)
    n_on = int(firsts[0]) if len(firsts) else n
    goes_on = None
    if n_on:
        front = rows.select(slice(0, n_on))
        goes_on = Records(records.data, front, records.headers, np.array([n_on]))
        if options.producer_id is not None and not control:
            partition.count(options.producer_id, n_on)
    records.rows = rows.select(slice(n_on, None))
    records.ends = np.append(firsts[1:], n)[: len(firsts)] - n_on
    new = np.zeros(len(firsts), np.bool_)
    drafts = _parts(draft.select(np.zeros(len(firsts), np.int64)), records, new)
    _count_producer(drafts, records.counts, options, partition)
    return Plan(goes_on, drafts, records)


def _check_producers(lines: Sequence[Record]) -> None:
    for name in ("producer_id", "transactional"):
        for line, value in zip(lines, field_of(lines, name), strict=True):
            if value is not None:
                raise wrong(line, f"{name} belongs in the batch line before the record")


def _time_of(line: Batch) -> int:
    """The default timestamp of a batch line's records."""
    return NO_TIMESTAMP if line.max_timestamp is None else line.max_timestamp


def _resolve(
    lines: Sequence[Batch],
    records: Sequence[Record],
    counts: Sequence[int],
    start: int,
) -> tuple[IntArray, IntArray]:
    """The base offsets and the records' offsets; a missing one follows the previous offset.

    start: the first free offset.
    """
    known = None not in field_of(lines, "base_offset")
    if known and None not in field_of(records, "offset"):
        return integers(lines, "base_offset", 0), integers(records, "offset", 0)
    bases: list[int] = []
    following: list[int] = []
    at = 0
    for line, n in zip(lines, counts, strict=True):
        first = records[at].offset if n else None
        base = line.base_offset
        if base is None:
            base = start if first is None else first
        bases.append(base)
        start = base
        for record in records[at : at + n]:
            following.append(start)
            start = (start if record.offset is None else record.offset) + 1
        start = max(start, base + max(line.last_offset_delta or 0, 0) + 1)
        at += n
    return (
        integers(lines, "base_offset", lambda i: bases[i]),
        integers(records, "offset", lambda i: following[i]),
    )


def _headers(
    lines: Sequence[Batch], bases: IntArray, records: Records, counts: IntArray, options: Options
) -> DraftTable:
    """The headers from the lines; missing fields follow from the records."""
    drafts = DraftTable.zeros(len(lines))
    rows = records.rows
    filled = np.flatnonzero(counts)
    firsts = (records.ends - counts)[filled]
    lasts, largest, first_times = bases.copy(), np.full(len(bases), -1), np.full(len(bases), -1)
    lasts[filled] = rows.offset[records.ends[filled] - 1]
    largest[filled] = np.maximum.reduceat(rows.timestamp, firsts)
    first_times[filled] = rows.timestamp[firsts]
    early = np.flatnonzero(rows.offset[firsts] < bases[filled])
    if len(early):
        row = int(firsts[early[0]])
        words = f"offset {rows.offset[row]} is before its batch's base_offset"
        raise wrong(int(rows["line"][row]), f"{words} {bases[filled[early[0]]]}")
    drafts.number = np.array([line.number for line in lines], np.int64)
    drafts.magic = integers(lines, "magic", 2)
    if options.magic is not None:
        drafts.magic = options.magic
    odd = np.flatnonzero((drafts.magic < 0) | (drafts.magic > 2))
    if len(odd):
        raise wrong(lines[int(odd[0])], f"magic {drafts.magic[odd[0]]} is not 0, 1 or 2")
    drafts.base_offset = bases
    # Compaction keeps the range of offsets; more records extend it. A batch split to new bounds
    # ends with its last record.
    given = integers(lines, "last_offset_delta", -1, 32)
    deltas = lasts - bases
    kept = given if options.given_bounds is None else np.where(counts == 0, given, -1)
    drafts.last_offset_delta = np.maximum(deltas, kept)
    far = np.flatnonzero(bases > MAX_OFFSET - drafts.last_offset_delta)
    if len(far):
        raise wrong(lines[int(far[0])], f"its last offset is larger than {MAX_OFFSET}")
    drafts.base_timestamp = integers(lines, "base_timestamp", lambda i: int(first_times[i]))
    drafts.max_timestamp = integers(lines, "max_timestamp", lambda i: int(largest[i]))
    drafts.max_given = np.array([line.max_timestamp is not None for line in lines])
    drafts.partition_leader_epoch = integers(lines, "partition_leader_epoch", -1, 32)
    drafts.base_sequence = integers(lines, "base_sequence", -1, 32)
    drafts.declared = integers(lines, "records_count", -1)
    drafts.attributes = np.array([_attributes_of(line, options) for line in lines], np.int64)
    _set_producers(drafts, lines, options)
    return drafts


def _attributes_of(line: Batch, options: Options) -> int:
    """The attributes as a signed 16-bit number; raises LineError.

    Named attributes override the bits of `raw`; options override both.
    """
    given = line.attributes or AttributesOfLine()
    if not -(1 << 15) <= given.raw < 1 << 16:
        raise wrong(line, f"raw attributes {given.raw} do not fit in 16 bits")
    bits = given.raw & 0xFFFF
    if given.compression is not None:
        if given.compression not in CODECS:
            raise wrong(line, f"compression {given.compression!r}: choose from {', '.join(CODECS)}")
        bits = bits & ~CODEC_MASK | CODECS.index(given.compression)
    for named in (TRANSACTIONAL, CONTROL, DELETE_HORIZON):
        value = getattr(given, named.name)
        if value is not None:
            bits = bits & ~named.mask | (named.mask if value else 0)
    if given.timestamp_type not in (None, NO_TYPE, *TIMESTAMP_TYPES):
        words = f"timestamp_type {given.timestamp_type!r}: choose from {', '.join(TIMESTAMP_TYPES)}"
        raise wrong(line, words)
    if given.timestamp_type in TIMESTAMP_TYPES:
        bits = _with_type(bits, TIMESTAMP_TYPES.index(given.timestamp_type))
    if options.timestamp_type is not None:
        bits = _with_type(bits, options.timestamp_type)
    if options.codec is not None and not bits & CONTROL.mask:
        bits = bits & ~CODEC_MASK | options.codec
    if options.transactional:
        bits |= TRANSACTIONAL.mask
    if bits & CODEC_MASK >= len(CODECS):
        raise wrong(line, f"codec {bits & CODEC_MASK} does not exist")
    return bits - (1 << 16) if bits & 0x8000 else bits


def _with_type(bits: int, timestamp_type: int) -> int:
    return bits & ~TIMESTAMP_TYPE.mask | TIMESTAMP_TYPE.mask * timestamp_type


def _set_producers(drafts: DraftTable, lines: Sequence[Batch], options: Options) -> None:
    drafts.producer_id = integers(lines, "producer_id", -1)
    epochs = integers(lines, "producer_epoch", -1, 16)
    if options.producer_id is not None:
        drafts.producer_id = options.producer_id
        epochs = epochs.clip(0)
    if options.producer_epoch is not None:
        epochs = np.where(drafts.producer_id >= 0, options.producer_epoch, epochs)
    drafts.producer_epoch = epochs


def _count_producer(
    drafts: DraftTable, counts: IntArray, options: Options, partition: OpenPartition
) -> None:
    """Number the records of the requested producer."""
    if options.producer_id is not None and len(drafts):
        control = drafts.attributes & CONTROL.mask != 0
        drafts.base_sequence = partition.count_each(drafts.producer_id, control, counts)


def _check_far(rows: RecordTable, bases: IntArray) -> None:
    far = np.flatnonzero(rows.offset - bases > MAX_DELTA)
    if len(far):
        i = int(far[0])
        words = f"offset {rows.offset[i]} is more than {MAX_DELTA} above its batch's base_offset"
        raise wrong(int(rows["line"][i]), words)


# Batches split to new bounds.


def _within_bounds(
    drafts: DraftTable, records: Records, owner: IntArray, options: Options
) -> tuple[DraftTable, Records]:
    """Split the batches that exceed the requested bounds."""
    assert options.given_bounds is not None
    rows = records.rows
    counts = records.counts
    control = drafts.attributes & CONTROL.mask != 0
    parted = np.diff(owner, prepend=-1) != 0
    cuts = cut(rows, parted, ~control[owner], options.given_bounds)
    empty = np.flatnonzero(counts == 0)
    batch = np.concatenate([owner[cuts], empty])
    firsts = np.concatenate([cuts, records.ends[empty]])
    order = np.lexsort((firsts, batch))
    batch, firsts = batch[order], firsts[order]
    records.ends = np.append(firsts[1:], len(rows))
    is_first = np.diff(batch, prepend=-1) != 0
    parts = drafts.select(batch)
    # A line's values for all its records need not apply to a part of them.
    parts.declared = np.where((parts.declared > 0) & (counts[batch] == 0), 1, -1)
    parts.max_given &= (parts.attributes & TIMESTAMP_TYPE.mask != 0).astype(np.int64)
    return _parts(parts, records, is_first), records


def _parts(parts: DraftTable, records: Records, is_first: BoolArray) -> DraftTable:
    """The headers of batches split from larger ones.

    parts: the header of each batch's original. is_first: whether it begins the original.
    """
    rows = records.rows
    counts = records.counts
    filled = np.flatnonzero(counts)
    firsts = (records.ends - counts)[filled]
    later = ~is_first[filled]
    bases = parts.base_offset.copy()
    bases[filled] = np.where(later, rows.offset[firsts], bases[filled])
    sequences = parts.base_sequence + (bases - parts.base_offset)
    known = parts.base_sequence >= 0
    parts.base_sequence = np.where(known, sequences & MAX_SEQUENCE, parts.base_sequence)
    parts.base_offset = bases
    parts.last_offset_delta[filled] = rows.offset[records.ends[filled] - 1] - bases[filled]
    of_records = later & (parts.attributes[filled] & DELETE_HORIZON.mask == 0)
    times = parts.base_timestamp[filled]
    parts.base_timestamp[filled] = np.where(of_records, rows.timestamp[firsts], times)
    largest = np.maximum.reduceat(rows.timestamp, firsts)
    stays = parts.max_given[filled] == 1
    of_line = parts.max_timestamp[filled]
    parts.max_timestamp[filled] = np.where(stays, of_line, largest)
    return parts
