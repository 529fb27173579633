"""convert-v0-to-v2: converts messages of magic 0 and 1 to batches of magic 2, keeping offsets.

A wrapper becomes one batch, loose messages are grouped; batches of magic 2 are copied unchanged.
Source for magic 0: `org.apache.kafka.storage.internals.log.LogValidator`, which converted such
messages on a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from kfmt_cli.checks.log.verifier import open_checked
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.findings import log as codes
from kfmt_cli.findings.damage import INNER_CRC_MISMATCH
from kfmt_cli.findings.finding import Finding, has_errors
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.log.block import Block, batch_finding, is_legacy, max_timestamps, runs, split
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import Records, expansion, fill
from kfmt_cli.writing.batches import Written, write_batches
from kfmt_cli.writing.build.drafts import BatchBounds, cut, draft, must_part
from kfmt_cli.writing.convert.compare import common_form
from kfmt_cli.writing.segment_writer import SegmentWriter

PART = 256 << 10  # compressed bytes to decompress at once
_TYPES = expansion(("timestamp_type", "timestamp_type", None, None))
NOTHING_BEFORE = -1 << 63
NO_HEADERS = np.zeros((4, 0), np.int64)


@dataclass(slots=True)
class Counts:
    """The counts of a conversion."""

    messages: int = 0
    batches: int = 0
    batches_after: int = 0
    left_out: int = 0
    """Damaged batches, dropped."""
    findings: list[Finding] = field(default_factory=list)
    digest: bytes = b""
    """The digest of the records in common form."""

    @property
    def damaged(self) -> bool:
        """Whether something was unreadable."""
        return has_errors(self.findings)


@dataclass(frozen=True, slots=True)
class Intact:
    """The undamaged content of a part of a log."""

    part: Block
    records: Records
    good: BoolArray
    """The mask of undamaged batches; older wrappers may still lack some messages."""
    findings: list[Finding]
    first: int | None
    """The first offset kept, None without any."""
    last: int | None
    """The last offset kept, None without any."""
    form: bytearray
    """The records in common form."""
    written: Written | None = None
    """The same converted, if wanted."""


@dataclass(frozen=True, slots=True)
class Converter:
    """The settings of a conversion."""

    codec: str | None
    """None keeps the codec of each wrapper."""
    bounds: BatchBounds
    limit: Limit
    jobs: int
    """The number of threads."""

    def convert(
        self, log: Input, writer: SegmentWriter | None, advance: Callable[[int], None]
    ) -> Counts:
        """Convert a log into a segment; raises InputError, OutputError. writer: None to only read
        the log."""
        total = Counts()
        digest = blake2b()
        work = self._intact if writer is None else self._convert
        for piece in self._each(log, work, advance):
            if writer is not None and piece.written is not None:
                writer.append(piece.written)
                total.batches_after += len(piece.written)
            total.messages += len(piece.records.rows)
            total.batches += len(piece.good)
            total.left_out += int((~piece.good).sum())
            total.findings += piece.findings
            digest.update(piece.form)
        total.digest = digest.digest()
        return total

    def _each(
        self, log: Input, work: Callable[..., Intact], advance: Callable[[int], None]
    ) -> Iterator[Intact]:
        """The parts of a log, in order. A part that overlaps earlier ones is processed again."""
        before = NOTHING_BEFORE
        with open_checked(log, read_ahead=False) as opened:
            parts = _parts(opened.blocks, advance)
            for done in map_ordered(work, parts, self.jobs if opened.is_large else 0):
                reaches_back = done.first is not None and done.first <= before
                piece = work(done.part, before) if reaches_back else done
                if piece.last is not None:
                    before = max(before, piece.last)
                yield piece

    def _intact(self, part: Block, before: int = NOTHING_BEFORE) -> Intact:
        """The undamaged records of a part, and the findings about the others.

        before: the last offset kept from earlier parts. It is known late, as parts are processed
        concurrently; a part that overlaps earlier ones is processed again.
        """
        good = part.batches.crc_valid == 1
        records = read_records(part, self.limit)
        findings = [*part.findings, *records.findings]
        if not is_legacy(part):
            fill(part, records, _TYPES)
            findings += _leave_out_backwards(part, good, before)
        rows = np.repeat(good, records.counts)
        inner = [
            finding.offset for finding in records.findings if finding.code is INNER_CRC_MISMATCH
        ]
        if inner:
            rows &= ~np.isin(records.rows.offset, np.array(inner, np.int64))
        if is_legacy(part):
            findings += _leave_out_records(part, records, rows, before)
        if not rows.all():
            kept = np.concatenate([[0], np.cumsum(rows)])
            records.ends = kept[records.ends]
            records.rows = records.rows.select(rows)
        first, last = _range(part, records, good)
        form = common_form(records)
        return Intact(part, records, good, findings, first, last, form)

    def _convert(self, part: Block, before: int = NOTHING_BEFORE) -> Intact:
        intact = self._intact(part, before)
        if intact.first is None:
            return intact
        legacy = is_legacy(part)
        written = self._rewrite(part, intact.records) if legacy else _unchanged(part, intact.good)
        return replace(intact, written=written)

    def _rewrite(self, part: Block, records: Records) -> Written:
        rows, batches = records.rows, part.batches
        owner = records.owner
        wrapped = batches.compression[owner] != 0
        parted = must_part(rows)
        parted[1:] |= (np.diff(owner) != 0) & (wrapped[1:] | wrapped[:-1])
        parted[1:] |= np.diff(batches.magic[owner]) != 0
        firsts = cut(rows, parted, ~wrapped, self.bounds)
        codec = CODECS.index(self.codec) if self.codec is not None else None
        codecs = batches.compression[owner][firsts] if codec is None else codec
        drafts = draft(rows, firsts, codecs)
        ends = np.append(firsts[1:], len(rows))[: len(firsts)]
        return write_batches(drafts, Records(records.data, rows, NO_HEADERS, ends))


def _range(part: Block, records: Records, good: BoolArray) -> tuple[int | None, int | None]:
    """The first and last offset kept from a part."""
    if is_legacy(part):
        first, last = records.rows.offset, records.rows.offset
    else:
        first, last = part.batches.base_offset[good], part.batches.last_offset[good]
    return (int(first[0]), int(last[-1])) if len(first) else (None, None)


def _leave_out_backwards(part: Block, good: BoolArray, before: int) -> Iterator[Finding]:
    """Exclude batches of magic 2 from `good` that do not begin after the batches kept.

    Consumers would receive their offsets twice, and no index could find them.
    """
    batches = part.batches
    base_offset, last_offset = batches.base_offset, batches.last_offset
    ends = np.concatenate([[before], last_offset])
    if (base_offset > ends[:-1]).all() and (last_offset >= base_offset).all():
        return
    said = {
        finding.position for finding in part.findings if finding.code is codes.OFFSETS_BACKWARDS
    }
    ranges = zip(base_offset.tolist(), last_offset.tolist(), strict=True)
    for i, (base, last) in enumerate(ranges):
        if not good[i]:
            continue
        if base > before and last >= base:
            before = last
            continue
        good[i] = False
        if int(batches.position[i]) not in said:
            words = f"offset {base} follows offset {before}"
            yield batch_finding(part, i, codes.OFFSETS_BACKWARDS, words, found=base)


def _leave_out_records(
    part: Block, records: Records, rows: BoolArray, before: int
) -> Iterator[Finding]:
    """Exclude messages from `rows` whose offsets do not increase.

    A batch of magic 2 cannot contain them, and no index could find them. The reader has checked
    loose messages and whole wrappers, but not the messages inside wrappers.
    """
    offset = records.rows.offset
    taken = np.where(rows, offset, NOTHING_BEFORE)
    highest = np.maximum.accumulate(np.concatenate([[before], taken]))[:-1]
    backwards = rows & (offset <= highest)
    if not backwards.any():
        return
    rows &= ~backwards
    owners = np.searchsorted(records.ends, np.flatnonzero(backwards), side="right")
    wrapped = owners[part.batches.compression[owners] != 0]
    for owner in np.unique(wrapped).tolist():
        first = int(np.flatnonzero(backwards)[np.searchsorted(owners, owner)])
        words = f"offset {offset[first]} follows offset {highest[first]}"
        yield batch_finding(part, owner, codes.RECORD_OFFSETS_BACKWARDS, words)


def _unchanged(part: Block, good: BoolArray) -> Written:
    """The batches unchanged, without the damaged ones."""
    batches = part.batches.select(good)
    ends = np.cumsum(batches.size)
    starts = batches.start.tolist()
    stops = batches.end.tolist()
    if starts and ends[-1] == stops[-1] - starts[0]:
        data = part.data[starts[0] : stops[-1]]
    else:
        data = b"".join(part.data[a:b] for a, b in zip(starts, stops, strict=True))
    base, last = batches.base_offset, batches.last_offset
    return Written(data, ends, base, last, max_timestamps(batches))


def _parts(blocks: Iterator[Block], advance: Callable[[int], None]) -> Iterator[Block]:
    """Runs of batches of one kind, none of them too large when decompressed."""
    for block in blocks:
        advance(len(block.data))
        for run in runs(block):
            if run.batches.compression.any():
                yield from split(run, PART)
            else:
                yield run
