"""Encodes messages of magic 0 and 1, loose or in compressed wrappers: the inverse of
`log/wrappers.py`.

Source: `org.apache.kafka.common.record.LegacyRecord`,
`MemoryRecordsBuilder.writeLegacyCompressedWrapperHeader`: a wrapper has the offset of its last
message; inner offsets are relative to the first one in magic 1, absolute in magic 0.
"""

from __future__ import annotations

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32, crc_of, crc_of_regions
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.layout.layout import IntArray, encoded
from kfmt_cli.core.layout.wire import Buffer, Value
from kfmt_cli.core.native.table import Table
from kfmt_cli.formats.batch import CODECS
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.block import CHECKED_FROM, STORED_CRC_AT
from kfmt_cli.log.records import Records
from kfmt_cli.writing.batches import APPEND_TIME, CODEC_MASK, DraftTable, Written, joined

NO_CHILDREN = np.zeros((4, 0), np.int64)
TAKEN = ("offset", "timestamp", "key", "key_size", "value", "value_size")


def write_messages(drafts: DraftTable, records: Records, magic: int) -> Written:
    """Encode batches as messages of magic 0 or 1: a wrapper per batch with a codec, otherwise
    loose.

    drafts, records: as for `writing.batches.write_batches`.
    """
    owner = np.repeat(np.arange(len(drafts)), records.counts)
    plain, ends = encode_messages(drafts, owner, records, magic)
    offset = records.rows.offset
    times = records.rows.timestamp if magic else np.full(len(owner), -1)
    loose = Written(plain, ends, offset, offset, times)
    codecs = drafts.attributes & CODEC_MASK
    if not codecs.any():
        return loose
    first, every = 0, []
    for i, last in enumerate(records.ends.tolist()):
        if last > first:
            part = loose.part(first, last)
            one = drafts.select(slice(i, i + 1))
            every.append(seal_wrapper(one, part.data, magic) if codecs[i] else part)
        first = last
    return joined(every) if every else loose


def encode_messages(
    drafts: DraftTable, owner: IntArray, records: Records, magic: int
) -> tuple[bytearray, IntArray]:
    """Encode messages consecutively, for wrappers or loose; also returns where each ends.

    owner: each record's batch in `drafts`.
    """
    layout, rows = MESSAGES[magic], records.rows
    inner = Table(layout.names, np.zeros((layout.width, len(rows)), np.int64))
    for name in TAKEN:
        if name in layout.names:
            inner[name] = rows[name]
    inner["magic"] = magic
    if magic == 1:
        attributes = drafts.attributes[owner]
        wrapped = attributes & CODEC_MASK != 0
        relative = rows.offset - drafts.base_offset[owner]
        inner["offset"] = np.where(wrapped, relative, rows.offset)
        inner["attributes"] = np.where(wrapped, 0, attributes & APPEND_TIME)
    out, ends = encoded(layout.program, records.data, inner.data, NO_CHILDREN)
    starts = np.append(0, ends)[:-1]
    crcs = crc_of_regions(CRC32, memoryview(out), starts + CHECKED_FROM[magic], ends)
    places = np.frombuffer(out, np.uint8)
    stored = crcs.astype(">u4").view(np.uint8).reshape(-1, 4)
    places[(starts + STORED_CRC_AT[magic])[:, None] + np.arange(4)] = stored
    return out, ends


def seal_wrapper(draft: DraftTable, body: Buffer | bytearray, magic: int) -> Written:
    """Put encoded messages in one wrapper. draft: one row."""
    attributes = int(draft.attributes[0])
    codec = attributes & CODEC_MASK
    base = draft.base_offset
    last = base + draft.last_offset_delta
    time = int(draft.max_timestamp[0])
    values: dict[str, Value] = {
        "offset": int(last[0]),
        "crc": 0,
        "magic": magic,
        "attributes": codec | (attributes & APPEND_TIME if magic else 0),
        "timestamp": time,
        "key": None,
        "value": compress(CODECS[codec], bytes(body), magic),
    }
    layout = MESSAGES[magic]
    checked = layout.write(values)[CHECKED_FROM[magic] :]
    data = layout.write({**values, "crc": crc_of(CRC32, checked)})
    times = np.array([time if magic else -1])
    return Written(data, np.array([len(data)]), base, last, times)
