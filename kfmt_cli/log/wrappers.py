"""Messages of magic 0 and 1, loose or inside compressed wrappers.

Follows `org.apache.kafka.common.record.AbstractLegacyRecordBatch`: a wrapper's value is a
compressed message set. Inside a wrapper of magic 0 offsets are absolute. Inside one of magic 1 they
are relative and end at the wrapper's offset, with gaps left by compaction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.codecs.checksum import CRC32, crc_of_regions
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.layout.place import Origin, Place
from kfmt_cli.core.native import kernel, scan
from kfmt_cli.core.native.table import Table, TableColumn
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import COMPRESSION
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.block import CHECKED_FROM, NO_TIMESTAMP_TYPE, Block, batch_finding
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC, MINIMUMS
from kfmt_cli.log.decompress import decompress_batch
from kfmt_cli.log.records import Records, unread
from kfmt_cli.rows.log_tables import BatchTable, RecordTable

OK = kernel.STATUSES["OK"]
_END, _MORE = (scan.WALKS[name] for name in ("END", "MORE"))
MAGIC_AT = HEADER_UP_TO_MAGIC - 1


class MessageTable(Table):
    """Messages as stored. batch: the row of each message's batch or wrapper."""

    __slots__ = ()

    batch = TableColumn()
    at = TableColumn()
    offset = TableColumn()
    crc = TableColumn()
    attributes = TableColumn()
    timestamp = TableColumn()
    has_timestamp = TableColumn()
    key = TableColumn()
    key_size = TableColumn()
    value = TableColumn()
    value_size = TableColumn()


def read_messages(block: Block, limit: Limit) -> Records:
    """The messages of a block of magic 0 and 1; wrappers are replaced by their messages."""
    batches = block.batches
    findings: list[Finding] = []
    data = block.data
    outer, failures = _decode(data, batches.start, batches.end)
    # The position in the file of the data's byte 0; a fixed batch is at the data's end.
    front = batches.position - batches.start
    for i in failures:
        start, end = int(batches.start[i]), int(batches.end[i])
        place = Place(Origin(block.name, int(front[i])), start)
        findings.append(unread(block, i, data[:end], place, "the message"))
    loose = outer.select(batches.compression[outer.batch] == 0)
    wrappers = outer.select(batches.compression[outer.batch] != 0)
    rows = _rows(loose, batches, 0)
    rows.position = loose.at + front[loose.batch]
    rows.has_position = 1
    owner = loose.batch
    if len(wrappers):
        inner_data, inner = _unwrap(block, wrappers, limit, findings)
        both = np.concatenate([rows.data, _rows(inner, batches, len(data)).data], axis=1)
        owner = np.concatenate([owner, inner.batch])
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        rows = RecordTable(rows.names, both).select(order)
        data += inner_data
    ends = np.searchsorted(owner, np.arange(len(batches)), side="right")
    return Records(data, rows, np.empty((4, 0), np.int64), ends, findings)


def _decode(data: bytes, starts: IntArray, ends: IntArray) -> tuple[MessageTable, list[int]]:
    """Decode the messages at starts..ends, numbered in `batch`, without the ones that fail; their
    numbers."""
    tables: list[MessageTable] = []
    failures: list[int] = []
    magics = np.frombuffer(data, np.uint8)[starts + MAGIC_AT] if len(starts) else starts
    for magic, layout in enumerate(MESSAGES):
        chosen = np.flatnonzero(magics == magic)
        if not len(chosen):
            continue
        columns = layout.columns(data, starts[chosen], ends[chosen], len(chosen))
        table = MessageTable.zeros(columns.rows.shape[1])
        for name in table.names.keys() & columns.names:
            table[name] = columns[name]
        good = columns.regions[3] == OK
        table.batch = chosen[good]
        table.has_timestamp = int(magic == 1)
        tables.append(table)
        failures += chosen[~good].tolist()
    if not tables:
        return MessageTable.zeros(0), failures
    merged = MessageTable(tables[0].names, np.concatenate([table.data for table in tables], axis=1))
    if len(tables) > 1:
        merged = merged.select(np.argsort(merged.batch, kind="stable"))
    return merged, failures


def _rows(messages: MessageTable, batches: BatchTable, shift: int) -> RecordTable:
    """Messages as records; their bytes are `shift` further on in the data."""
    rows = RecordTable.zeros(len(messages))
    for name in ("offset", "timestamp", "has_timestamp", "key_size", "value_size"):
        rows[name] = messages[name]
    for name in ("at", "key", "value"):
        rows[name] = messages[name] + shift
    types = batches.timestamp_type[messages.batch]
    rows.timestamp_type = np.where(messages.has_timestamp == 1, types, NO_TIMESTAMP_TYPE)
    return rows


def _unwrap(
    block: Block, wrappers: MessageTable, limit: Limit, findings: list[Finding]
) -> tuple[bytes, MessageTable]:
    """The messages inside wrappers, with the wrapper's `batch` and absolute offsets."""
    batches = block.batches
    sets: list[bytes] = []
    for i, start, size in zip(
        *(wrappers[name].tolist() for name in ("batch", "value", "value_size")), strict=True
    ):
        value = block.data[start : start + max(size, 0)]
        codec, magic = int(batches.compression[i]), int(batches.magic[i])
        inner: bytes | None = b""
        if size >= 0:
            inner = decompress_batch(block, i, magic, codec, value, limit, findings)
        if inner == b"":
            message = f"a wrapper without {'a value' if size < 0 else 'messages'}"
            findings.append(batch_finding(block, i, codes.INNER_SET_MALFORMED, message))
        sets.append(inner or b"")
    data = b"".join(sets)
    set_ends = np.cumsum([len(inner) for inner in sets])
    regions = np.zeros((4, len(sets)), np.int64)
    regions[0] = set_ends - [len(inner) for inner in sets]
    regions[1] = set_ends
    found = np.empty((3, len(data) // HEADER_UP_TO_MAGIC + 1), np.int64)
    n = scan.walk(data, regions, MINIMUMS[: len(MESSAGES)].copy(), found)
    wrapper_of = wrappers.batch[found[2, :n]]
    findings += _stops(block, wrappers.batch, regions)
    starts, ends = found[0, :n].copy(), found[1, :n].copy()
    inner_table, failures = _decode(data, starts, ends)
    for number in failures:
        i = int(wrapper_of[number])
        first = int(np.searchsorted(found[2, :n], found[2, number]))
        place = Place(Origin(block.name, int(batches.position[i]), decompressed=True), 0)
        inside = data[int(starts[number]) : int(ends[number])]
        findings.append(unread(block, i, inside, place, f"message {number - first}"))
    message = inner_table.batch.copy()
    inner_table.batch = wrapper_of[message]
    findings += _place(block, inner_table)
    findings += _check_inner(block, data, inner_table, ends[message])
    nested = inner_table.attributes & COMPRESSION.mask
    return data, inner_table.select(nested == 0) if nested.any() else inner_table


def _stops(block: Block, wrapper_of: IntArray, regions: IntArray) -> Iterator[Finding]:
    """Findings for message sets that do not end with a message."""
    reasons = regions[3]
    for i in np.flatnonzero(reasons != _END).tolist():
        left = int(regions[1, i] - regions[2, i])
        code = codes.INNER_SET_MALFORMED
        if reasons[i] == _MORE:
            code = codes.INNER_SET_TRUNCATED
        message = f"the last {left} bytes of its message set are not a magic 0 or 1 message"
        yield batch_finding(block, int(wrapper_of[i]), code, message, found=left)


def _check_inner(
    block: Block, data: bytes, inner: MessageTable, ends: IntArray
) -> Iterator[Finding]:
    """Check the checksums of messages inside wrappers, and that none is itself compressed."""
    first = np.where(inner.has_timestamp == 1, CHECKED_FROM[1], CHECKED_FROM[0])
    computed = crc_of_regions(CRC32, data, inner.at + first, ends)
    for row in np.flatnonzero(computed != inner.crc).tolist():
        stored = int(inner.crc[row])
        yield batch_finding(
            block,
            int(inner.batch[row]),
            codes.INNER_CRC_MISMATCH,
            f"message at offset {inner.offset[row]}: stored {stored:08x}, computed "
            f"{int(computed[row]):08x}",
            expected=f"{int(computed[row]):08x}",
            found=f"{stored:08x}",
            offset=int(inner.offset[row]),
        )
    for row in np.flatnonzero(inner.attributes & COMPRESSION.mask).tolist():
        yield batch_finding(
            block,
            int(inner.batch[row]),
            codes.INNER_SET_MALFORMED,
            f"the inner message at offset {inner.offset[row]} is itself compressed, left out",
        )


def _place(block: Block, inner: MessageTable) -> Iterator[Finding]:
    """Turn stored inner offsets and timestamps into the ones that a consumer sees."""
    batches = block.batches
    if not len(inner):
        return
    wrapper = inner.batch
    last_row = np.flatnonzero(np.diff(wrapper, append=-1))
    first_row = np.concatenate([[0], last_row[:-1] + 1])
    owner = wrapper[last_row]
    last_inner = inner.offset[last_row]
    outer = batches.last_offset[owner]
    relative = batches.magic[owner] == 1
    shift = np.where(relative & (outer != 0), outer - last_inner, 0)
    inner.offset += np.repeat(shift, last_row - first_row + 1)
    batches.base_offset[owner] = inner.offset[first_row]
    batches.has_base_offset[owner] = 1
    append_time = (batches.timestamp_type[wrapper] == 1) & (inner.has_timestamp == 1)
    inner.timestamp = np.where(append_time, batches.max_timestamp[wrapper], inner.timestamp)
    # A wrapper of magic 1 with offset 0 is left as it is (librdkafka wrote such wrappers).
    wrong = np.where(relative, shift < 0, outer != last_inner)
    for i in np.flatnonzero(wrong).tolist():
        yield batch_finding(
            block,
            int(owner[i]),
            codes.WRAPPER_OFFSET_INVALID,
            f"the wrapper's offset is {outer[i]}, but its last message's is {last_inner[i]}",
            expected=int(last_inner[i]),
            found=int(outer[i]),
        )
