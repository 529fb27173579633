"""Exported records become the segments of a partition again.

With the table of batches, each batch has its header, codec and segment again, so that an
uncompressed log gets the same bytes; a codec may pack the same records otherwise. Without it, the
records of a batch are known by its position; codec, leader epoch and empty batches are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kfmt_cli.arrow.columns.record_columns import APPEND_TIME, numbers, records_of_rows
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.errors import InputError
from kfmt_cli.formats.batch import CONTROL, TRANSACTIONAL
from kfmt_cli.log.block import NO_TIMESTAMP, STORED_CRC_AT
from kfmt_cli.log.records import Records
from kfmt_cli.render.style import count
from kfmt_cli.rows.log_tables import RecordTable
from kfmt_cli.writing.batches import CODEC_MASK, GIVEN, DraftTable, Written
from kfmt_cli.writing.build.drafts import draft, must_part
from kfmt_cli.writing.build.growing import Growing
from kfmt_cli.writing.build.parse import COLUMNS
from kfmt_cli.writing.output import Staging
from kfmt_cli.writing.rolling import Rolling, RollingWriter

LAST = (1 << 63) - 1
NO_ENDS: IntArray = np.zeros(0, np.int64)
OF_DESCRIBED = ("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
"""The columns of records whose batches are known."""
OF_RECORDS = (
    *(*OF_DESCRIBED, "producer_id", "producer_epoch", "sequence", "transactional", "control"),
    *("file", "batch_position"),
)
_OF_HEADERS = ("magic", *GIVEN)
OF_BATCHES = (*_OF_HEADERS, "last_offset", "records_count", "crc", "crc_valid", "file")
_FACTS = ("producer_id", "producer_epoch", "transactional", "control", "batch_position")


@dataclass(slots=True)
class RestoredCounts:
    """What was written of a partition, and what could not be."""

    records: int = 0
    batches: int = 0
    unchanged_batches: int = 0
    """Batches with the checksum that they had."""
    repeated_records: int = 0
    """Records that other files have too, as of another replica."""
    missing_records: int = 0
    """Records that batches had and the table of records has not."""
    damaged: int = 0
    """Batches whose checksum did not match, with their records, which are left out."""

    def losses(self) -> Iterator[str]:
        """What could not be written, as text."""
        if self.missing_records:
            words = count(self.missing_records, "record")
            yield f"{words} missing from the table of records, but counted in the table of batches"
        if self.damaged:
            yield f"{count(self.damaged, 'damaged batch', 'damaged batches')} dropped"
        if self.repeated_records:
            words = count(self.repeated_records, "record")
            yield f"{words} in more than one file, written once"

    def add(self, other: RestoredCounts) -> None:
        """Add those of another partition."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class _Batches:
    """The batches of a partition in offset order, as they are needed."""

    rest: Iterator[pa.RecordBatch]
    held: dict[str, Any] = field(default_factory=dict)
    last: int = -1

    def until(self, offset: int) -> dict[str, Any]:
        """The batches that begin at or before an offset; moves past them."""
        parts = [self.held] if self.held else []
        while not parts or parts[-1]["first"][-1] <= offset:
            rows = next(self.rest, None)
            if rows is None:
                break
            columns = self._columns(rows)
            if len(columns["first"]):
                parts.append(columns)
        if not parts:
            return {}
        every = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        n = int(np.searchsorted(every["first"], offset, "right"))
        self.held = {name: values[n:] for name, values in every.items()}
        if not len(self.held["first"]):
            self.held = {}
        return {name: values[:n] for name, values in every.items()} if n else {}

    def _columns(self, rows: pa.RecordBatch) -> dict[str, Any]:
        """The columns of batches that come after those before."""
        found: dict[str, Any] = {
            name: numbers(rows.column(name))
            for name in OF_BATCHES
            if name not in ("file", "base_offset")
        }
        found["file"] = rows.column("file").to_numpy(zero_copy_only=False)
        last = found["last_offset"]
        base = numbers(rows.column("base_offset"), -1)
        # A wrapper of magic 0 or 1 says only where it ends.
        found["base_offset"] = np.where(base < 0, last, base)
        before = np.maximum.accumulate(np.concatenate([[self.last], last]))[:-1]
        found["first"] = np.where(base < 0, before + 1, base)
        keep = last > before
        self.last = max(self.last, int(last.max(initial=-1)))
        return {name: values[keep] for name, values in found.items()}


class PartitionRestorer:
    """Writes the records of a partition into segments under a folder of a staging.

    batches: the rows of its table of batches in offset order; None without such a table. codec: the
    number of the codec of all batches; None for that of the table, or none. name: for messages.
    """

    def __init__(
        self,
        name: str,
        staging: Staging,
        folder: str,
        rolling: Rolling,
        batches: Iterable[pa.RecordBatch] | None = None,
        codec: int | None = None,
    ) -> None:
        self.name = name
        self.counts = RestoredCounts()
        self.writer = RollingWriter(staging, rolling)
        self._folder, self._by_file = folder, rolling.by_file
        self._batches = None if batches is None else _Batches(iter(batches))
        self._codec = codec
        self._growing = Growing(self._put)
        self._last = -1  # offset
        self._begun = -1  # base offset
        self._file: str | None = None
        self._facts: IntArray | None = None  # of the last record
        self._known = np.zeros((3, 0), np.int64)  # last offsets, checksums, magics of batches
        self._open = (-1, True, True)  # last offset of the open batch, is it sound, of magic 2
        self._declared = self._undeclared = 0  # records

    def restore(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Write all records, in offset order; raises InputError, OutputError."""
        take = self._loose if self._batches is None else self._described
        with self.writer:
            for part in rows:
                if len(fresh := self._fresh(part)):
                    take(fresh)
            if self._batches is not None:
                self._described(None)
            self._growing.close()
        self.counts.records = self._growing.records
        if self._batches is not None:
            of_v2 = self._growing.records - self._undeclared
            self.counts.missing_records = max(self._declared - of_v2, 0)

    def _fresh(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows above all earlier offsets."""
        offsets = numbers(rows.column("offset"))
        before = np.maximum.accumulate(np.concatenate([[self._last], offsets]))[:-1]
        keep = offsets > before
        self._last = max(self._last, int(offsets.max(initial=-1)))
        self.counts.repeated_records += len(rows) - int(keep.sum())
        return rows if keep.all() else rows.filter(pa.array(keep))

    # With the table of batches.

    def _described(self, rows: pa.RecordBatch | None) -> None:
        """Write records in the batches that they were in; None at the end."""
        assert self._batches is not None
        if rows is not None:
            rows = self._continued(rows)
        last = LAST if rows is None else self._last
        chosen = self._batches.until(last) if rows is None or len(rows) else {}
        offsets = np.zeros(0, np.int64) if rows is None else numbers(rows.column("offset"))
        if not chosen:
            self._check(offsets, NO_ENDS, NO_ENDS)
            return
        ends = np.searchsorted(offsets, chosen["last_offset"], "right")
        starts = np.searchsorted(offsets, chosen["first"])
        self._check(offsets, starts, ends)
        is_v2, is_sound = chosen["magic"] == 2, chosen["crc_valid"] == 1
        counts = ends - starts
        keep = is_sound & ((counts > 0) | (is_v2 & (chosen["records_count"] == 0)))
        self.counts.damaged += int((~is_sound).sum())
        self._declared += int(chosen["records_count"][is_sound & is_v2].sum())
        self._undeclared += int(counts[is_sound & ~is_v2].sum())
        self._open = int(chosen["last_offset"][-1]), bool(is_sound[-1]), bool(is_v2[-1])
        if not keep.all():
            mask = np.repeat(keep, counts)
            rows = None if rows is None else rows.filter(pa.array(mask))
            chosen = {name: values[keep] for name, values in chosen.items()}
            counts = counts[keep]
        if len(counts):
            self._write(chosen, counts, rows)

    def _continued(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Write the records that belong to the open batch; the others."""
        last, is_sound, is_v2 = self._open
        n = int(np.searchsorted(numbers(rows.column("offset")), last, "right"))
        if n and is_sound:
            records = records_of_rows(rows.slice(0, n))
            self._undeclared += 0 if is_v2 else n
            self._growing.extend(records)
        return rows.slice(n)

    def _check(self, offsets: IntArray, starts: IntArray, ends: IntArray) -> None:
        """Raise InputError for records outside of all batches, with the rows starts..ends-1."""
        before = np.concatenate([[0], ends])
        outside = np.flatnonzero(np.append(starts, len(offsets)) > before)
        if len(outside):
            at = int(offsets[before[outside[0]]])
            raise InputError(f"{self.name}: offset {at} is in none of the exported batches")

    def _write(self, chosen: dict[str, Any], counts: IntArray, rows: pa.RecordBatch | None) -> None:
        """Write batches with their records, a file and magic after another."""
        ends = np.cumsum(counts)
        records = _NOTHING if rows is None or not len(rows) else records_of_rows(rows)
        drafts = _drafts_of(chosen, records, counts)
        if self._codec is not None:
            is_data = drafts.attributes & CONTROL.mask == 0
            packed = drafts.attributes & ~CODEC_MASK | self._codec
            drafts.attributes = np.where(is_data, packed, drafts.attributes)
        known = np.array([chosen["last_offset"], chosen["crc"], drafts.magic])
        open_ones = self._known[:, -1:] if self._growing.open else self._known[:, :0]
        self._known = np.concatenate([open_ones, known], axis=1)
        files, magics = chosen["file"], drafts.magic
        parted = np.ones(len(counts), np.bool_)
        parted[1:] = (files[1:] != files[:-1]) | (np.diff(magics) != 0)
        firsts = np.flatnonzero(parted).tolist()
        for first, last in pairwise([*firsts, len(counts)]):
            self._growing.close()
            self._begin(files[first], of_file=True)
            start, end = int(ends[first] - counts[first]), int(ends[last - 1])
            part = records.rows.select(slice(start, end))
            some = Records(records.data, part, records.headers, ends[first:last] - start)
            self._growing.add(drafts.select(slice(first, last)), some)

    def _begin(self, file: str | None, *, of_file: bool) -> None:
        """Begin a segment if the records are from another file now."""
        if file == self._file:
            return
        self._file = file
        base = None if file is None else kind_of(file.rpartition("/")[2])[1]
        is_first = self._begun < 0
        if base is not None and base > self._begun and (is_first or self._by_file):
            self._begun = base
            self.writer.begin(self._folder, base, of_file=of_file and self._by_file)

    # Without it.

    def _loose(self, rows: pa.RecordBatch) -> None:
        """Write records in batches by their positions."""
        records = records_of_rows(rows)
        table = records.rows
        facts = np.array([numbers(rows.column(name)) for name in _FACTS])
        times = np.where(table.timestamp_type == APPEND_TIME, table.timestamp, 0)
        facts = np.concatenate([facts, [table.timestamp_type, times]])
        coded = rows.column("file").dictionary_encode()
        files, names = numbers(coded.indices), coded.dictionary.to_pylist()
        file_at = [None if i < 0 else names[i] for i in files[[0, -1]].tolist()]
        parted = must_part(table)
        parted[1:] |= (facts[:, 1:] != facts[:, :-1]).any(axis=0) | (files[1:] != files[:-1])
        if self._facts is not None and file_at[0] == self._file:
            parted[0] = (facts[:, 0] != self._facts).any()
        if self._facts is None:
            self._begin(file_at[0], of_file=False)
        self._facts, self._file = facts[:, -1], file_at[1]
        firsts = np.flatnonzero(parted)
        n = int(firsts[0]) if len(firsts) else len(table)
        if n:
            part = Records(records.data, table.select(slice(0, n)), records.headers, np.array([n]))
            self._growing.extend(part)
        if not len(firsts):
            return
        rest = table.select(slice(n, None))
        ends = np.append(firsts[1:], len(table)) - n
        control = facts[_FACTS.index("control"), firsts] == 1
        drafts = draft(rest, firsts - n, np.where(control, 0, self._codec or 0))
        drafts.producer_id, drafts.producer_epoch = facts[:2, firsts]
        is_transactional = facts[_FACTS.index("transactional"), firsts] == 1
        drafts.attributes |= is_transactional * TRANSACTIONAL.mask | control * CONTROL.mask
        drafts.base_sequence = numbers(rows.column("sequence"))[firsts]
        drafts.declared = -1
        self._growing.add(drafts, Records(records.data, rest, records.headers, ends))

    def _put(self, written: Written) -> None:
        self.counts.batches += len(written)
        n_known = self._known.shape[1]
        if n_known and len(written):
            last, crc, magic = self._known
            at = np.searchsorted(last, written.last_offset).clip(max=n_known - 1)
            places = written.starts + np.array(STORED_CRC_AT)[magic[at]]
            data: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(written.data, np.uint8)
            stored = data[places[:, None] + np.arange(4)].astype(np.int64)
            made = stored @ (1 << np.arange(24, -1, -8))
            same = (last[at] == written.last_offset) & (crc[at] & 0xFFFFFFFF == made)
            self.counts.unchanged_batches += int(same.sum())
        self.writer.append(written)


_NOTHING = Records(b"", RecordTable.empty(COLUMNS, 0), np.zeros((4, 0), np.int64), NO_ENDS)


def _drafts_of(chosen: dict[str, Any], records: Records, counts: IntArray) -> DraftTable:
    """The headers of batches from their table. Times that it cannot hold are those of the
    records."""
    drafts = DraftTable.zeros(len(counts))
    for name in _OF_HEADERS:
        drafts[name] = chosen[name]
    drafts.last_offset_delta = chosen["last_offset"] - chosen["base_offset"]
    drafts.declared, drafts.max_given = -1, 1
    filled = np.flatnonzero(counts)
    firsts = (np.cumsum(counts) - counts)[filled]
    times = records.rows.timestamp
    largest = np.maximum.reduceat(times, firsts)
    for name, values in (("base_timestamp", times[firsts]), ("max_timestamp", largest)):
        known = chosen[name][filled]
        drafts[name][filled] = np.where(known == NO_TIMESTAMP, values, known)
    return drafts
