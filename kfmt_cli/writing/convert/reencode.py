"""Re-encodes the readable records of a damaged batch as a new batch, and marks each record.

Nothing verifies such records. Each gets an additional header that names the damage, so that
consumers can tell. Leader epochs, and producers without transactions, are not copied from the
damaged batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS, TRANSACTIONAL
from kfmt_cli.log.block import Block, is_legacy, part_of
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import Records, expansion, fill
from kfmt_cli.writing.batches import CODEC_MASK, Written, write_batches
from kfmt_cli.writing.build.drafts import draft, normalize

MARK = b"kfmt.salvaged"  # the header's key; its value is the finding's code
_TYPES = expansion(("timestamp_type", "timestamp_type", None, None))
Producer = tuple[int, int]  # id and epoch


@dataclass(frozen=True, slots=True)
class Reencoded:
    """The readable remains of a damaged batch."""

    position: int
    written: Written
    records: int
    producer: Producer | None
    """The producer of its transaction, None without one."""

    @property
    def base_offset(self) -> int:
        """The offset of its first record."""
        return int(self.written.base_offset[0])

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return int(self.written.last_offset[0])


def reencoded(run: Block, i: int, limit: Limit, findings: list[Finding]) -> Reencoded | None:
    """Re-encode the readable records of batch i of a run; None if there are none.

    findings: the run's findings. Control batches are never split: half a marker is meaningless.
    """
    part = part_of(run, i, i + 1)
    header = part.batches.row(0)
    if header.control:
        return None
    records = read_records(part, limit)
    if not is_legacy(part):
        fill(part, records, _TYPES)
    base, last = int(part.batches.base_offset[0]), int(part.batches.last_offset[0])
    offset = records.rows.offset
    inside = (offset >= base) & (offset <= last)
    before = np.concatenate([[base - 1], np.where(inside, offset, base - 1)])
    rows = records.rows.select(inside & (offset > np.maximum.accumulate(before)[:-1]))
    if base < 0 or not len(rows):
        return None
    normalize(rows)
    end = header.position + header.size
    named = [
        finding.code.name
        for finding in findings
        if header.position <= (finding.position or 0) < end
    ]
    marked = _marked(Records(records.data, rows, records.headers, np.array([len(rows)])), named[0])
    codec = header.compression if header.compression < len(CODECS) else 0
    drafts = draft(rows, np.array([0]), codec)
    producer = None
    if header.is_v2 and header.transactional:
        producer = header.producer_id, header.producer_epoch
        drafts.attributes |= TRANSACTIONAL.mask
        drafts.producer_id, drafts.producer_epoch = producer
        drafts.base_sequence = header.base_sequence + int(rows.offset[0]) - base
    assert (drafts.attributes & CODEC_MASK == codec).all()
    written = write_batches(drafts, marked)
    return Reencoded(header.position, written, len(rows), producer)


def _marked(records: Records, why: str) -> Records:
    """Append the mark to the headers of each record."""
    rows = records.rows
    name_at, value_at = len(records.data), len(records.data) + len(MARK)
    mark = np.array([[name_at], [len(MARK)], [value_at], [len(why)]])
    pieces = []
    for first, n in zip(rows.headers_first.tolist(), rows.headers.tolist(), strict=True):
        pieces += [records.headers[:4, first : first + n], mark]
    rows.headers += 1
    rows.headers_first = np.cumsum(rows.headers) - rows.headers
    data = b"".join([records.data, MARK, why.encode()])
    return Records(data, rows, np.ascontiguousarray(np.hstack(pieces)), records.ends)
