"""build: lines of JSON → batches → segments.

Batch lines say how records are grouped and what the header holds; records that come before the
first one are grouped by the options.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.core.layout import IntArray
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.errors import InputError
from kfmt_cli.files.block import NO_TIMESTAMP
from kfmt_cli.files.control import MAX_SEQUENCE
from kfmt_cli.files.records import Records
from kfmt_cli.formats.batch import ATTRIBUTES, CODECS, TIMESTAMP_TYPES
from kfmt_cli.writers.batches import DRAFT_COLUMNS, Written, write_batches
from kfmt_cli.writers.drafts import Bounds, cut, draft, must_part
from kfmt_cli.writers.jsonl import IGNORED, Attributes, Line, segment_of
from kfmt_cli.writers.messages import write_messages
from kfmt_cli.writers.parse import integers, records_of, wrong
from kfmt_cli.writers.rolling import RollingWriter

BIT = {bits.name: 1 << bits.at for bits in ATTRIBUTES.bits}
ENOUGH = 8192  # lines, so that each call of NumPy does much


@dataclass(frozen=True, slots=True)
class Options:
    """What is not said by the lines. now: the timestamp of records without one."""

    magic: int = 2
    codec: str = "none"
    timestamp_type: int = 0
    bounds: Bounds = field(default_factory=Bounds)
    base_offset: int | None = None
    producer_id: int = -1
    producer_epoch: int = 0
    transactional: bool = False
    now: int = 0


@dataclass(slots=True)
class Builder:
    """Takes lines and gives batches to a writer."""

    options: Options
    writer: RollingWriter
    by_file: bool
    records: int = 0
    ignored: int = 0
    other_counts: int = 0
    _held: list[Line] = field(default_factory=list)
    _tried: int = 0
    _file: str | None = None
    _next_offset: int | None = None
    _sequences: dict[int, int] = field(default_factory=dict)

    def build(self, pieces: Iterable[Sequence[Line]]) -> None:
        """All the lines; raises InputError, OutputError."""
        for lines in pieces:
            self._take(lines)
        self._flush(final=True)

    def _take(self, lines: Sequence[Line]) -> None:
        kinds = {line.type for line in lines}
        if not kinds <= {"record", "batch"}:
            for line in lines:
                if line.type not in ("record", "batch", *IGNORED):
                    raise wrong(line, "only batches and records can be built")
            known = [line for line in lines if line.type not in IGNORED]
            self.ignored += len(lines) - len(known)
            lines = known
        self._held += lines
        if len(self._held) - self._tried >= ENOUGH:
            self._flush(final=False)
            self._tried = len(self._held)

    def _flush(self, final: bool) -> None:
        """Write what is held, but not a batch whose records may go on."""
        held = self._held
        at = [i for i, line in enumerate(held) if line.type == "batch"]
        loose = at[0] if at else len(held)
        done = self._loose(held[:loose], final or bool(at))
        if at:
            ends = [*at[1:], len(held)]
            if not final:
                at, ends = at[:-1], ends[:-1]
            self._batches(held, at, ends)
            done = ends[-1] if at else loose
        del held[:done]

    # Batches that are given.

    def _batches(self, held: list[Line], at: list[int], ends: list[int]) -> None:
        """Batches that begin at some lines, in groups of one magic and one file."""
        first = 0
        for i in range(1, len(at) + 1):
            here, last = held[at[first]], i == len(at)
            if last or (held[at[i]].magic, held[at[i]].file) != (here.magic, here.file):
                self._group(held, at[first:i], ends[first:i])
                first = i

    def _group(self, held: list[Line], at: list[int], ends: list[int]) -> None:
        lines = [held[i] for i in at]
        self._begin(lines[0])
        records = [it for i, end in zip(at, ends, strict=True) for it in held[i + 1 : end]]
        counts = np.array([end - i - 1 for i, end in zip(at, ends, strict=True)], np.int64)
        owner = np.repeat(np.arange(len(at)), counts)
        row_ends = np.cumsum(counts)
        bases = integers(lines, "base_offset", lambda i: self._base(records, row_ends - counts, i))
        within = np.arange(len(records)) - (row_ends - counts)[owner]
        offsets = integers(records, "offset", lambda i: int(bases[owner[i]] + within[i]))
        times = integers(records, "timestamp", lambda i: _or_none(lines[owner[i]].max_timestamp))
        rows = records_of(records, offsets, times, 0)
        rows.ends = row_ends
        drafts = self._drafts(lines, bases, rows, counts)
        self._check_counts(lines, counts)
        self._write(drafts, rows, lines[0].magic)

    def _base(self, records: list[Line], firsts: IntArray, i: int) -> int:
        first = int(firsts[i])
        own = records[first].offset if first < len(records) else None
        return own if own is not None else self._next_offset or 0

    def _check_counts(self, lines: list[Line], counts: IntArray) -> None:
        for line, n in zip(lines, counts.tolist(), strict=True):
            if line.records_count not in (None, n):
                if not n:
                    raise wrong(
                        line,
                        f"{line.records_count} records are declared, no line of them follows; "
                        "dump with --records",
                    )
                self.other_counts += 1

    def _drafts(
        self, lines: list[Line], bases: IntArray, records: Records, counts: IntArray
    ) -> Table:
        """The headers as the lines say; what they do not say follows from the records."""
        drafts = Table.empty(DRAFT_COLUMNS, len(lines))
        rows = records.rows
        filled = np.flatnonzero(counts)
        firsts = (records.ends - counts)[filled]
        lasts, largest, first_times = bases - 1, np.full(len(bases), -1), np.full(len(bases), -1)
        if len(filled):
            lasts[filled] = rows["offset"][records.ends[filled] - 1]
            largest[filled] = np.maximum.reduceat(rows["timestamp"], firsts)
            first_times[filled] = rows["timestamp"][firsts]
            early = np.flatnonzero(np.minimum.reduceat(rows["offset"], firsts) < bases[filled])
            if len(early):
                i = int(filled[early[0]])
                raise wrong(lines[i], "one of its records has an offset before its base_offset")
        deltas = (lasts - bases).clip(0)
        drafts["magic"] = integers(lines, "magic", 2)
        drafts["base_offset"] = bases
        # Compaction leaves the range of offsets; more records make it longer.
        given = integers(lines, "last_offset_delta", -1, 32)
        drafts["last_offset_delta"] = np.maximum(deltas, given)
        drafts["base_timestamp"] = integers(lines, "base_timestamp", lambda i: int(first_times[i]))
        drafts["max_timestamp"] = integers(lines, "max_timestamp", lambda i: int(largest[i]))
        for name, bits in (("partition_leader_epoch", 32), ("producer_epoch", 16)):
            drafts[name] = integers(lines, name, -1, bits)
        drafts["producer_id"] = integers(lines, "producer_id", -1)
        drafts["base_sequence"] = integers(lines, "base_sequence", -1, 32)
        drafts["attributes"] = np.array([self._attributes(line) for line in lines], np.int64)
        return drafts

    def _attributes(self, line: Line) -> int:
        """The attributes of a batch line: the names count, `raw` has the bits without one."""
        given = line.attributes or Attributes()
        if not -(1 << 15) <= given.raw < 1 << 16:
            raise wrong(line, f"raw attributes {given.raw} do not fit into 16 bits")
        bits = given.raw & 0xFFFF
        if given.compression is not None:
            if given.compression not in CODECS:
                raise wrong(line, f"compression {given.compression!r} is none of {CODECS}")
            bits = bits & ~7 | CODECS.index(given.compression)
        elif line.attributes is None:
            bits = CODECS.index(self.options.codec)
        if bits & 7 >= len(CODECS):
            raise wrong(line, f"codec {bits & 7} does not exist")
        for name in ("transactional", "control", "delete_horizon"):
            value = getattr(given, name)
            if value is not None:
                bits = bits & ~BIT[name] | (BIT[name] if value else 0)
        if given.timestamp_type in TIMESTAMP_TYPES:
            of_type = BIT["timestamp_type"]
            bits = bits & ~of_type | of_type * TIMESTAMP_TYPES.index(given.timestamp_type)
        return bits - (1 << 16) if bits & 0x8000 else bits

    # Records that stand alone.

    def _loose(self, lines: list[Line], final: bool) -> int:
        """Group records by the options; how many of them were written."""
        if not lines:
            return 0
        options = self.options
        # Those of one file together.
        end = next((i for i, it in enumerate(lines) if it.file != lines[0].file), len(lines))
        whole = final or end < len(lines)
        chosen = lines[:end]
        if self._next_offset is None and options.base_offset is not None:
            self._next_offset = options.base_offset
        start = self._next_offset or 0
        offsets = _counted(chosen, start)
        times = integers(chosen, "timestamp", options.now)
        default = options.timestamp_type
        records = records_of(chosen, offsets, times, default)
        rows = records.rows
        producers = integers(chosen, "producer_id", options.producer_id)
        epochs = integers(
            chosen, "producer_epoch", lambda i: options.producer_epoch if producers[i] >= 0 else -1
        )
        control = np.array([line.control is not None for line in chosen])
        transactional = np.array(
            [
                options.transactional if it.transactional is None else it.transactional
                for it in chosen
            ]
        )
        lost = np.flatnonzero(transactional & (producers < 0))
        if len(lost):
            raise wrong(chosen[lost[0]], "transactional, but of no producer")
        parted = must_part(rows)
        for column in (producers, epochs, control, transactional):
            parted[1:] |= np.diff(column.astype(np.int64)) != 0
        parted[1:] |= control[1:]
        firsts, n = cut(rows, parted, ~control, options.bounds), end
        if not whole:
            n, firsts = int(firsts[-1]), firsts[:-1]  # the last one may get more
            if not n:
                return 0
        records.rows = rows.select(slice(0, n))
        records.ends = np.append(firsts[1:], n)
        counts = np.diff(records.ends, prepend=0)
        codec = np.where(control[firsts], 0, CODECS.index(options.codec))
        drafts = draft(records.rows, firsts, codec)
        drafts["magic"] = options.magic
        drafts["producer_id"] = producers[firsts]
        drafts["producer_epoch"] = epochs[firsts]
        marked = control[firsts] | (transactional[firsts] & (producers[firsts] >= 0))
        drafts["attributes"] |= marked * BIT["transactional"] | control[firsts] * BIT["control"]
        drafts["base_sequence"] = self._sequences_of(producers[firsts], control[firsts], counts)
        self._begin(chosen[0])
        self._write(drafts, records, options.magic)
        return n + (self._loose(lines[n:], final) if whole and n < len(lines) else 0)

    def _sequences_of(self, producers: IntArray, control: BoolArray, counts: IntArray) -> IntArray:
        """Each producer counts its records from 0; markers have no number."""
        done = []
        for producer, is_control, n in zip(
            producers.tolist(), control.tolist(), counts.tolist(), strict=True
        ):
            if producer < 0 or is_control:
                done.append(-1)
                continue
            first = self._sequences.get(producer, 0)
            done.append(first)
            self._sequences[producer] = (first + n) & MAX_SEQUENCE
        return np.array(done, np.int64)

    # What both end with.

    def _begin(self, line: Line) -> None:
        """Begin a segment where the lines name another file."""
        started = bool(self.writer.logs)
        if started and not (self.by_file and line.file != self._file):
            return
        self._file = line.file
        folder, base = segment_of(line.file)
        if not self.by_file:
            folder, base = "", None
        if not started and self.options.base_offset is not None:
            base = self.options.base_offset
        if base is not None:
            self.writer.begin(folder, base)
        elif folder or started:
            offset = line.base_offset if line.type == "batch" else line.offset
            self.writer.begin(folder, offset if offset is not None else self._next_offset or 0)

    def _write(self, drafts: Table, records: Records, magic: int | None) -> None:
        written: Written
        if magic in (None, 2):
            written = write_batches(drafts, records)
        elif magic in (0, 1):
            self._check_legacy(drafts, records)
            written = write_messages(drafts, records, int(magic or 0))
        else:
            raise InputError(f"magic {magic} is none of 0, 1 and 2")
        self.writer.append(written)
        self.records += len(records.rows)
        if len(written.last_offset):
            self._next_offset = int(written.last_offset[-1]) + 1

    @staticmethod
    def _check_legacy(drafts: Table, records: Records) -> None:
        if records.rows["headers"].any():
            raise InputError("messages of magic 0 and 1 have no headers")
        if (drafts["attributes"] & (BIT["transactional"] | BIT["control"])).any():
            raise InputError("magic 0 and 1 know neither transactions nor control records")
        if (drafts["attributes"] & 7 == CODECS.index("zstd")).any():
            raise InputError("magic 0 and 1 know no zstd")


def _or_none(timestamp: int | None) -> int:
    """The timestamp, `NO_TIMESTAMP` without one."""
    return NO_TIMESTAMP if timestamp is None else timestamp


def _counted(lines: Sequence[Line], start: int) -> IntArray:
    """The offsets; one that is missing follows the one before it."""
    following = []
    for line in lines:
        following.append(start)
        start = (start if line.offset is None else line.offset) + 1
    return integers(lines, "offset", lambda i: following[i])
