"""Batches whose records arrive in pieces: all but the last are written, the last may grow.

Records are encoded on arrival, so that a batch of millions takes the memory of its bytes and time
in proportion to them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.formats.batch import CODECS, CONTROL, TRANSACTIONAL
from kfmt_cli.log.block import HEADER_SIZE
from kfmt_cli.log.records import Records
from kfmt_cli.writing.batches import (
    CODEC_MASK,
    DraftTable,
    Written,
    encode_records,
    seal,
    write_batches,
)
from kfmt_cli.writing.build.drafts import Open, record_sizes
from kfmt_cli.writing.build.jsonl import wrong
from kfmt_cli.writing.messages import encode_messages, seal_wrapper, write_messages

MAX_BATCH = (1 << 31) - 1
NOT_IN_MESSAGES = TRANSACTIONAL.mask | CONTROL.mask


class Growing:
    """Takes batches and records, and passes complete batches to `put`.

    records: the number taken. other_counts: the number of batches whose lines declare another
    record count.
    """

    def __init__(self, put: Callable[[Written], None]) -> None:
        self._put = put
        self.open: Open | None = None
        self.records = 0
        self.other_counts = 0

    def add(self, drafts: DraftTable, records: Records) -> None:
        """Add batches; the last one stays open. Raises LineError."""
        self.close()
        _check_magic(drafts, records)
        last, magic = len(drafts) - 1, int(drafts.magic[0])
        n = int(records.ends[last - 1]) if last else 0
        if last:
            rows = records.rows.select(slice(0, n))
            whole = Records(records.data, rows, records.headers, records.ends[:-1])
            drafts_whole = drafts.select(slice(0, last))
            self._count(drafts_whole, whole.counts)
            self._put(
                write_batches(drafts_whole, whole)
                if magic == 2
                else write_messages(drafts_whole, whole, magic)
            )
            self.records += n
        rest = records.rows.select(slice(n, None)) if n else records.rows
        draft = drafts.select(slice(last, None))
        body = bytearray(HEADER_SIZE if magic == 2 else 0)
        self.open = Open(draft, body)
        if len(rest):
            self.extend(Records(records.data, rest, records.headers, np.array([len(rest)])))

    def extend(self, records: Records) -> None:
        """Add records to the open batch; raises LineError."""
        batch = self.open
        assert batch is not None
        rows, draft = records.rows, batch.draft
        _check_magic(draft, records)
        delta = int(rows.offset[-1] - draft.base_offset[0])
        draft.last_offset_delta = np.maximum(draft.last_offset_delta, delta)
        if not draft.max_given[0]:
            largest = int(rows.timestamp.max())
            draft.max_timestamp = np.maximum(draft.max_timestamp, largest)
        magic = int(draft.magic[0])
        owner = np.zeros(len(rows), np.int64)
        if magic == 2:
            batch.body += encode_records(draft, owner, records)[0]
        elif draft.attributes[0] & CODEC_MASK:
            batch.body += encode_messages(draft, owner, records, magic)[0]
        else:
            records.ends = np.array([len(rows)])
            batch.done.append(write_messages(draft, records, magic))
        if len(batch.body) > MAX_BATCH:
            words = f"its batch would be larger than {MAX_BATCH} bytes"
            raise wrong(int(draft.number[0]), words)
        batch.size += int(record_sizes(rows).sum())
        batch.records += len(rows)
        self.records += len(rows)

    def close(self) -> None:
        """Write the open batch; raises LineError if its line declares records but none follow."""
        batch, self.open = self.open, None
        if batch is None:
            return
        self._count(batch.draft, np.array([batch.records]))
        magic = int(batch.draft["magic"][0])
        if magic == 2:
            self._put(seal(batch.draft, batch.body, batch.records))
        elif batch.body:
            self._put(seal_wrapper(batch.draft, batch.body, magic))
        for written in batch.done:
            self._put(written)

    def _count(self, drafts: DraftTable, counts: IntArray) -> None:
        """Compare the record counts with those declared in lines."""
        declared = drafts.declared
        other = (declared >= 0) & (declared != counts)
        if not other.any():
            return
        gone = np.flatnonzero(other & (counts == 0))
        if len(gone):
            i = int(gone[0])
            records = f"{declared[i]} record{'s' if declared[i] > 1 else ''}"
            words = f"{records} declared, but no record lines follow; run dump with --records"
            raise wrong(int(drafts.number[i]), words)
        self.other_counts += int(other.sum())


def _check_magic(drafts: DraftTable, records: Records) -> None:
    """Raise LineError for anything that messages of magic 0 and 1 cannot represent."""
    if not len(drafts) or drafts.magic[0] == 2:
        return
    numbers = drafts.number
    with_headers = np.flatnonzero(records.rows.headers)
    if len(with_headers):
        number = int(records.rows["line"][with_headers[0]])
        raise wrong(number, "messages of magic 0 and 1 have no headers")
    attributes = drafts.attributes
    for wrong_one, words in (
        (attributes & NOT_IN_MESSAGES != 0, "neither transactions nor control records"),
        (attributes & CODEC_MASK == CODECS.index("zstd"), "no zstd"),
        (drafts.producer_id >= 0, "no producers"),
    ):
        if wrong_one.any():
            raise wrong(int(numbers[wrong_one.argmax()]), f"magic 0 and 1 support {words}")
