"""Control records, decoded in bulk.

Source: `org.apache.kafka.common.record.ControlRecordType`: a key has at least 4 bytes, the value of
a transaction marker 6; further bytes are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.table import BoolArray
from kfmt_cli.disk.partition_path import location_by_column
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import RECORD
from kfmt_cli.formats.control import (
    ABORT,
    COMMIT,
    CONTROL_RECORD_KEY,
    CONTROL_TYPES,
    END_TXN_MARKER,
    FIRST_KRAFT_TYPE,
)
from kfmt_cli.log.block import BATCH_HEADER_BYTES, Block, batch_finding
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.rows.column import LocationSource
from kfmt_cli.topics import CLUSTER_METADATA

CONTROL_KEY_BYTES = CONTROL_RECORD_KEY.dtype.itemsize
MARKER_BYTES = END_TXN_MARKER.dtype.itemsize
_CONTROL_DATA_COLUMNS = ("has_control_data", "control_data", "control_data_size")
MARKER_TYPES = (ABORT, COMMIT)


def fill_control_columns(block: Block, records: RecordColumns) -> Iterator[Finding]:
    """Fill the control columns of the records; yields findings for malformed ones."""
    if not block.batches.control.any():
        return
    records.add_output_columns()
    rows = records.rows
    batch_of_row = records.batch_of_row
    is_control = block.batches.control[batch_of_row] == 1
    for column in ("control", "has_marker"):
        rows[column] = 0
    rows.control_type = -1
    has_complete_key = is_control & (rows.key_size >= CONTROL_KEY_BYTES)
    key_rows = np.flatnonzero(has_complete_key)
    payload_starts = rows.key[key_rows]
    decoded_keys = CONTROL_RECORD_KEY.decode_columns(
        records.data, payload_starts, payload_starts + CONTROL_KEY_BYTES, len(key_rows)
    )
    rows.control[key_rows] = 1
    rows.control_type[key_rows] = decoded_keys.type
    rows.control_version[key_rows] = decoded_keys.version
    is_marker = has_complete_key & np.isin(rows.control_type, MARKER_TYPES)
    marker_rows = np.flatnonzero(is_marker & (rows.value_size >= MARKER_BYTES))
    payload_starts = rows.value[marker_rows]
    decoded_markers = END_TXN_MARKER.decode_columns(
        records.data, payload_starts, payload_starts + MARKER_BYTES, len(marker_rows)
    )
    rows.has_marker[marker_rows] = 1
    rows.coordinator_epoch[marker_rows] = decoded_markers.coordinator_epoch
    yield from _fill_kraft_columns(block, records, batch_of_row, has_complete_key)
    is_malformed = (is_control & ~has_complete_key) | (is_marker & (rows.has_marker == 0))
    for row in np.flatnonzero(is_malformed).tolist():
        yield batch_finding(
            block,
            int(batch_of_row[row]),
            codes.CONTROL_MALFORMED,
            f"control record with {_describe_size('key', rows.key_size[row])} (at least "
            f"{CONTROL_KEY_BYTES} "
            f"needed) and {_describe_size('value', rows.value_size[row])} (a marker has "
            f"{MARKER_BYTES})",
            offset=int(rows.offset[row]),
        )


def _fill_kraft_columns(
    block: Block, records: RecordColumns, batch_of_row: IntArray, has_complete_key: BoolArray
) -> Iterator[Finding]:
    """Fill the contents of KRaft control records; yields findings for malformed ones."""
    rows = records.rows
    rows.has_control_data = 0
    control_types = rows.control_type
    is_kraft = (
        has_complete_key
        & (control_types >= FIRST_KRAFT_TYPE)
        & (control_types < len(CONTROL_TYPES))
    )
    kraft_rows = np.flatnonzero(is_kraft)
    if not len(kraft_rows):
        return
    from kfmt_cli.core.layout.messages import (
        find_version_prefixed_layout,
        message_to_json,
        read_message,
    )
    from kfmt_cli.formats.kraft import KRAFT_LAYOUT_BY_TYPE

    # Brokers and consumers decode them in no other topic.
    topic = location_by_column(block.file_name, LocationSource.FILE)["topic"]
    is_kraft_log = topic in (None, CLUSTER_METADATA)
    json_texts: list[bytes] = []
    json_start = len(records.data)
    for row in kraft_rows.tolist():
        value_start, value_size = int(rows.value[row]), int(rows.value_size[row])
        message_layout = KRAFT_LAYOUT_BY_TYPE[int(rows.control_type[row])]
        value = records.data[value_start : value_start + max(value_size, 0)]
        version_layout = find_version_prefixed_layout(message_layout, value, 0, len(value))
        decoded_message = (
            None if version_layout is None else read_message(version_layout, value, 0, len(value))
        )
        error = "its value lacks a version" if decoded_message is None else decoded_message.error
        if error is not None and is_kraft_log:
            message = f"control record whose value is not a valid {message_layout.name}: {error}"
            offset = int(rows.offset[row])
            yield batch_finding(
                block, int(batch_of_row[row]), codes.PAYLOAD_MALFORMED, message, offset=offset
            )
        if version_layout is None or decoded_message is None:
            continue
        json_bytes = json_text(message_to_json(version_layout, decoded_message.values)).encode()
        for column, column_value in zip(
            _CONTROL_DATA_COLUMNS, (1, json_start, len(json_bytes)), strict=True
        ):
            rows.data[rows.index_by_name[column], row] = column_value
        json_texts.append(json_bytes)
        json_start += len(json_bytes)
    records.data = b"".join([records.data, *json_texts]) if json_texts else records.data


def _describe_size(noun: str, size: int) -> str:
    return f"a null {noun}" if size < 0 else f"a {noun} of {size} bytes"


def fill_control_types(block: Block) -> None:
    """Fill the batches' `control_type` from the first record of uncompressed control batches."""
    batches = block.batches
    batches.control_type = -1
    is_uncompressed_control = (batches.control == 1) & (batches.compression == 0)
    control_rows = np.flatnonzero(is_uncompressed_control & (batches.is_v2 == 1))
    if not len(control_rows):
        return
    payload_starts = batches.start[control_rows] + BATCH_HEADER_BYTES
    record_columns = RECORD.decode_columns(
        block.data, payload_starts, batches.end[control_rows], len(control_rows)
    )
    record_ends = record_columns.regions[2]
    nonempty_indexes = np.flatnonzero(np.diff(record_ends, prepend=0))
    first_record_rows = np.concatenate([[0], record_ends[:-1]])[nonempty_indexes]
    has_complete_key = record_columns.key_size[first_record_rows] >= CONTROL_KEY_BYTES
    payload_starts = record_columns.key[first_record_rows][has_complete_key]
    decoded_keys = CONTROL_RECORD_KEY.decode_columns(
        block.data, payload_starts, payload_starts + CONTROL_KEY_BYTES, len(payload_starts)
    )
    batches.control_type[control_rows[nonempty_indexes[has_complete_key]]] = decoded_keys.type
