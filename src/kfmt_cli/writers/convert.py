"""convert-v0-to-v2: messages of magic 0 and 1 as batches of magic 2, offsets and all.

A wrapper becomes one batch, loose messages are grouped; batches of magic 2 pass through as they
are. Source of what magic 0 becomes: `org.apache.kafka.storage.internals.log.LogValidator`, which
converted such messages on a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from kfmt_cli.core.compression import Limit
from kfmt_cli.core.finding import Finding, Severity
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.core.table import BoolArray, Table
from kfmt_cli.files import codes
from kfmt_cli.files.block import Block, max_timestamps
from kfmt_cli.files.discover import Input
from kfmt_cli.files.open_log import open_log
from kfmt_cli.files.records import (
    RECORD_COLUMNS,
    Records,
    batch_finding,
    expansion,
    fill,
    is_legacy,
    read_records,
    runs,
    split,
)
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.writers.batches import Written, write_batches
from kfmt_cli.writers.compare import common_form
from kfmt_cli.writers.drafts import Bounds, cut, draft, must_part
from kfmt_cli.writers.segment import SegmentWriter

T = TypeVar("T")
PART = 256 << 10  # compressed bytes that are decompressed at once
_TYPES = expansion(("timestamp_type", "timestamp_type", None, None))
NO_HEADERS = np.zeros((4, 0), np.int64)


@dataclass(slots=True)
class Counts:
    """What was converted. left_out: damaged batches. digest: of the records in one form."""

    messages: int = 0
    batches: int = 0
    batches_after: int = 0
    left_out: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: bytes = b""

    @property
    def damaged(self) -> bool:
        """Whether something was not readable."""
        return any(it.code.severity is Severity.ERROR for it in self.findings)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a log, converted. form: its records in their common form."""

    written: Written | None
    counts: Counts
    form: bytearray


@dataclass(frozen=True, slots=True)
class Converter:
    """How to convert. codec: None keeps each wrapper's. jobs: threads."""

    codec: str | None
    bounds: Bounds
    limit: Limit
    jobs: int

    def convert(self, log: Input, writer: SegmentWriter, advance: Callable[[int], None]) -> Counts:
        """All of a log into a segment; raises InputError, OutputError."""
        total = Counts()
        digest = blake2b()
        for piece in self._each(log, self._convert, advance):
            if piece.written is not None:
                writer.append(piece.written)
            for name in ("messages", "batches", "batches_after", "left_out", "findings"):
                setattr(total, name, getattr(total, name) + getattr(piece.counts, name))
            digest.update(piece.form)
        total.digest = digest.digest()
        return total

    def digest(self, log: Input, advance: Callable[[int], None]) -> bytes:
        """The digest of the undamaged records of a log, as in `Counts`."""
        digest = blake2b()
        for form in self._each(log, self._form, advance):
            digest.update(form)
        return digest.digest()

    def _form(self, part: Block) -> bytearray:
        return common_form(self._intact(part)[0])

    def _each(
        self,
        log: Input,
        work: Callable[[Block], T],
        advance: Callable[[int], None],
    ) -> Iterator[T]:
        with open_log(log, read_ahead=False) as opened:
            parts = _parts(opened.blocks, advance)
            yield from map_ordered(work, parts, self.jobs if opened.is_large else 0)

    def _intact(self, part: Block) -> tuple[Records, list[Finding]]:
        """The undamaged records of a part, and what is wrong with the others."""
        batches = part.batches
        if not len(batches):
            no_rows = Table.empty(RECORD_COLUMNS, 0)
            return Records(b"", no_rows, NO_HEADERS, np.zeros(0, np.int64)), part.findings
        records = read_records(part, self.limit)
        if not is_legacy(part):
            fill(part, records, _TYPES)
        good = batches["crc_valid"] == 1
        rows = np.repeat(good, np.diff(records.ends, prepend=0))
        inner = [it.offset for it in records.findings if it.code is codes.INNER_CRC_MISMATCH]
        if inner:
            rows &= ~np.isin(records.rows["offset"], np.array(inner, np.int64))
        if is_legacy(part) and (np.diff(records.rows["offset"]) <= 0).any():
            # A batch of magic 2 cannot hold them, and no index could find them.
            offset = records.rows["offset"]
            records.findings += _backwards(part, records)
            rows[1:] &= offset[1:] > np.maximum.accumulate(offset)[:-1]
        if not rows.all():
            kept = np.concatenate([[0], np.cumsum(rows)])
            records.ends = kept[records.ends]
            records.rows = records.rows.select(rows)
        return records, [*part.findings, *records.findings]

    def _convert(self, part: Block) -> Piece:
        batches = part.batches
        good = batches["crc_valid"] == 1
        counts = Counts(0, len(batches), 0, int((~good).sum()), list(part.findings))
        if not len(batches):
            return Piece(None, counts, bytearray())
        records, counts.findings = self._intact(part)
        counts.messages = len(records.rows)
        form = common_form(records)
        written = self._rewrite(part, records) if is_legacy(part) else _unchanged(part, good)
        counts.batches_after = len(written.starts)
        return Piece(written, counts, form)

    def _rewrite(self, part: Block, records: Records) -> Written:
        rows, batches = records.rows, part.batches
        owner = np.repeat(np.arange(len(batches)), np.diff(records.ends, prepend=0))
        wrapped = batches["compression"][owner] != 0
        parted = must_part(rows)
        parted[1:] |= (np.diff(owner) != 0) & (wrapped[1:] | wrapped[:-1])
        parted[1:] |= np.diff(batches["magic"][owner]) != 0
        firsts = cut(rows, parted, ~wrapped, self.bounds)
        codec = CODECS.index(self.codec) if self.codec is not None else None
        codecs = batches["compression"][owner][firsts] if codec is None else codec
        drafts = draft(rows, firsts, codecs)
        ends = np.append(firsts[1:], len(rows))[: len(firsts)]
        return write_batches(drafts, Records(records.data, rows, NO_HEADERS, ends))


def _backwards(part: Block, records: Records) -> Iterator[Finding]:
    """Offsets inside wrappers that do not increase; those of the wrappers have been looked at."""
    offset = records.rows["offset"]
    row = int(np.flatnonzero(np.diff(offset) <= 0)[0]) + 1
    owner = int(np.searchsorted(records.ends, row, side="right"))
    if part.batches["compression"][owner]:
        words = f"offset {offset[row]} follows offset {offset[row - 1]}"
        yield batch_finding(part, owner, codes.RECORD_OFFSETS_BACKWARDS, words)


def _unchanged(part: Block, good: BoolArray) -> Written:
    """The batches as they are, without the damaged ones."""
    batches = part.batches.select(good)
    sizes = batches["size"]
    ends = np.cumsum(sizes)
    starts = batches["start"].tolist()
    stops = batches["end"].tolist()
    if starts and ends[-1] == stops[-1] - starts[0]:
        data = part.data[starts[0] : stops[-1]]
    else:
        data = b"".join(part.data[a:b] for a, b in zip(starts, stops, strict=True))
    base, last = batches["base_offset"], batches["last_offset"]
    return Written(data, ends - sizes, ends, base, last, max_timestamps(batches))


def _parts(blocks: Iterator[Block], advance: Callable[[int], None]) -> Iterator[Block]:
    """Runs of batches of the same kind, none of them too large when it is decompressed."""
    for block in blocks:
        advance(len(block.data))
        for run in runs(block):
            if run.batches["compression"].any():
                yield from split(run, PART)
            else:
                yield run
