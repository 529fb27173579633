"""Control records, decoded in bulk.

Source: `org.apache.kafka.common.record.ControlRecordType`: a key has at least 4 bytes, the value of
a transaction marker 6; further bytes are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.formats.control import (
    ABORT,
    COMMIT,
    CONTROL_RECORD_KEY,
    CONTROL_TYPES,
    END_TXN_MARKER,
    FIRST_OF_KRAFT,
)
from kfmt_cli.log.block import HEADER_SIZE, Block, batch_finding
from kfmt_cli.log.records import Records

KEY_SIZE = CONTROL_RECORD_KEY.dtype.itemsize
MARKER_SIZE = END_TXN_MARKER.dtype.itemsize
_DATA = ("has_control_data", "control_data", "control_data_size")
MARKERS = (ABORT, COMMIT)


def read_control(block: Block, records: Records) -> Iterator[Finding]:
    """Fill the control columns of the records; yields findings for malformed ones."""
    if not block.batches.control.any():
        return
    records.add_columns()
    rows = records.rows
    batch = records.owner
    control = block.batches.control[batch] == 1
    for name in ("control", "has_marker"):
        rows[name] = 0
    rows.control_type = -1
    whole = control & (rows.key_size >= KEY_SIZE)
    chosen = np.flatnonzero(whole)
    starts = rows.key[chosen]
    keys = CONTROL_RECORD_KEY.columns(records.data, starts, starts + KEY_SIZE, len(chosen))
    rows.control[chosen] = 1
    rows.control_type[chosen] = keys.type
    rows.control_version[chosen] = keys.version
    is_marker = whole & np.isin(rows.control_type, MARKERS)
    marked = np.flatnonzero(is_marker & (rows.value_size >= MARKER_SIZE))
    starts = rows.value[marked]
    markers = END_TXN_MARKER.columns(records.data, starts, starts + MARKER_SIZE, len(marked))
    rows.has_marker[marked] = 1
    rows.coordinator_epoch[marked] = markers.coordinator_epoch
    yield from _read_kraft(block, records, batch, whole)
    broken = (control & ~whole) | (is_marker & (rows.has_marker == 0))
    for row in np.flatnonzero(broken).tolist():
        yield batch_finding(
            block,
            int(batch[row]),
            codes.CONTROL_MALFORMED,
            f"control record with {_sized('key', rows.key_size[row])} (at least {KEY_SIZE} "
            f"needed) and {_sized('value', rows.value_size[row])} (a marker has {MARKER_SIZE})",
            offset=int(rows.offset[row]),
        )


def _read_kraft(
    block: Block, records: Records, batch: IntArray, whole: BoolArray
) -> Iterator[Finding]:
    """Fill the contents of KRaft control records; yields findings for malformed ones."""
    rows = records.rows
    rows.has_control_data = 0
    types = rows.control_type
    of_kraft = whole & (types >= FIRST_OF_KRAFT) & (types < len(CONTROL_TYPES))
    chosen = np.flatnonzero(of_kraft)
    if not len(chosen):
        return
    from kfmt_cli.core.layout.messages import plain, read_message, self_versioned
    from kfmt_cli.formats.kraft import KRAFT_MESSAGES

    pieces: list[bytes] = []
    at = len(records.data)
    for row in chosen.tolist():
        start, size = int(rows.value[row]), int(rows.value_size[row])
        message = KRAFT_MESSAGES[int(rows.control_type[row])]
        value = records.data[start : start + max(size, 0)]
        layout = self_versioned(message, value, 0, len(value))
        reading = None if layout is None else read_message(layout, value, 0, len(value))
        fault = "its value lacks a version" if reading is None else reading.fault
        if fault is not None:
            words = f"control record whose value is not a valid {message.name}: {fault}"
            offset = int(rows.offset[row])
            yield batch_finding(
                block, int(batch[row]), codes.PAYLOAD_MALFORMED, words, offset=offset
            )
        if layout is None or reading is None:
            continue
        text = json_text(plain(layout, reading.values)).encode()
        for name, number in zip(_DATA, (1, at, len(text)), strict=True):
            rows.data[rows.names[name], row] = number
        pieces.append(text)
        at += len(text)
    records.data = b"".join([records.data, *pieces]) if pieces else records.data


def _sized(what: str, size: int) -> str:
    return f"a null {what}" if size < 0 else f"a {what} of {size} bytes"


def name_control_batches(block: Block) -> None:
    """Fill the batches' `control_type` from the first record of uncompressed control batches."""
    batches = block.batches
    batches.control_type = -1
    control = (batches.control == 1) & (batches.compression == 0)
    chosen = np.flatnonzero(control & (batches.is_v2 == 1))
    if not len(chosen):
        return
    starts = batches.start[chosen] + HEADER_SIZE
    columns = RECORD.columns(block.data, starts, batches.end[chosen], len(chosen))
    ends = columns.regions[2]
    filled = np.flatnonzero(np.diff(ends, prepend=0))
    firsts = np.concatenate([[0], ends[:-1]])[filled]
    whole = columns.key_size[firsts] >= KEY_SIZE
    starts = columns.key[firsts][whole]
    keys = CONTROL_RECORD_KEY.columns(block.data, starts, starts + KEY_SIZE, len(starts))
    batches.control_type[chosen[filled[whole]]] = keys.type
