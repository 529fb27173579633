"""Blocks and records as columnar rows, with the columns that only outputs need.

Positions, sequences, contents of control records, and keys and values from the topic's decoder.
"""

from __future__ import annotations

import numpy as np

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import MAX_SEQUENCE, NO_SEQUENCE
from kfmt_cli.log.block import Block, batch_finding
from kfmt_cli.log.control import fill_control_columns, fill_control_types
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import RecordColumns, build_expand_program, fill_columns_from_batches
from kfmt_cli.rows.columnar_rows import ColumnarRows, NestedRows
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import DECODED_COLUMNS, DECODED_RECORD_ROW, RECORD_ROW
from kfmt_cli.topics.decoder import DecodedPayload, Decoder

_BATCH_COLUMNS_PROGRAM = build_expand_program(
    ("batch_position", "position", None, None),
    ("file_number", "file_number", None, None),
    ("timestamp_type", "timestamp_type", None, None),
    ("is_v2", "is_v2", None, None),
)
_V2_COLUMNS_PROGRAM = build_expand_program(
    ("position", "records_position", "at", None),
    ("has_position", "is_plain", None, None),
    ("sequence", "base_sequence", "offset_delta", "has_sequence"),
    ("control", "control", None, None),
)


def batch_rows(block: Block) -> NestedRows:
    """The batches of a block."""
    fill_control_types(block)
    return NestedRows(ColumnarRows(BATCH_ROW, block.batches))


def record_rows(
    block: Block, records: RecordColumns, decoder: Decoder | None = None, as_text: bool = False
) -> NestedRows:
    """The batches of a run, each with its records, which `fill_derived_columns` has filled.

    as_text: format decoded values as text for people instead of JSON.
    """
    if decoder is not None:
        inner_rows = decode_payloads(block, records, decoder, as_text)
    else:
        inner_rows = ColumnarRows(RECORD_ROW, records.rows, records.data, records.headers)
    return NestedRows(ColumnarRows(BATCH_ROW, block.batches), inner_rows, records.row_ends)


def read_complete_records(run: Block, limit: DecompressionLimit) -> RecordColumns:
    """Decode the records of a run of batches, and fill the derived columns of both."""
    records = read_records(run, limit)
    fill_derived_columns(run, records)
    return records


def fill_derived_columns(block: Block, records: RecordColumns) -> None:
    """Fill the columns that only outputs need, and add malformed records to the findings."""
    records.add_output_columns()  # even for an empty block
    batches, rows = block.batches, records.rows
    if not len(batches):
        return
    if not batches.is_v2[0]:
        fill_columns_from_batches(block, records, _BATCH_COLUMNS_PROGRAM[:2])
        return
    batches.is_plain = batches.compression == 0
    batches.has_sequence = batches.base_sequence >= 0
    fill_columns_from_batches(block, records, _BATCH_COLUMNS_PROGRAM)
    fill_columns_from_batches(block, records, _V2_COLUMNS_PROGRAM)
    if batches.has_sequence.any():
        rows.sequence = np.where(
            rows.sequence > MAX_SEQUENCE, rows.sequence & MAX_SEQUENCE, rows.sequence
        )
    if (batches.base_sequence < NO_SEQUENCE).any():
        rows.sequence = np.maximum(rows.sequence, NO_SEQUENCE)  # as in `DefaultRecord.readFrom`
    records.findings += fill_control_columns(block, records)


def decode_payloads(
    block: Block, records: RecordColumns, decoder: Decoder, as_text: bool
) -> ColumnarRows:
    """The records with their decoded keys and values.

    Adds findings for malformed keys and values to the records' findings.
    """
    from kfmt_cli.topics.message_text import format_message

    # Each start column is followed by its length column and its presence column.
    payload_columns = [
        column for name in DECODED_COLUMNS for column in (name, f"{name}_size", f"has_{name}")
    ]
    record_table = records.rows.with_columns(payload_columns)
    payload_texts: list[bytes] = []
    payload_text_start = len(records.data)
    column_names = ("control", "key", "key_size", "value", "value_size")
    for row, (control, *starts_and_sizes) in enumerate(
        zip(*(record_table[name].tolist() for name in column_names), strict=True)
    ):
        if control:
            continue
        key, value = (_bytes_or_none(records.data, *starts_and_sizes[i : i + 2]) for i in (0, 2))
        payloads = (
            None if key is None else decoder.decode_key(key),
            decoder.decode_value(key, value),
        )
        for name, payload in zip(DECODED_COLUMNS, payloads, strict=True):
            if payload is None:
                continue
            if payload.error is not None:
                records.findings.append(
                    _malformed_payload_finding(block, records, row, name, payload)
                )
            payload_text = (
                format_message(payload) if as_text else json_text(payload.json_values)
            ).encode()
            record_table.data[record_table.index_by_name[name] + np.arange(3), row] = (
                payload_text_start,
                len(payload_text),
                1,
            )
            payload_texts.append(payload_text)
            payload_text_start += len(payload_text)
    joined_data = b"".join([records.data, *payload_texts])
    return ColumnarRows(DECODED_RECORD_ROW, record_table, joined_data, records.headers)


def _malformed_payload_finding(
    block: Block, records: RecordColumns, row: int, column: str, payload: DecodedPayload
) -> Finding:
    """The finding for a key or value that is not a valid message of its type."""
    batch_index = int(np.searchsorted(records.row_ends, row, side="right"))
    offset = int(records.rows.offset[row])
    message = (
        f"offset {offset}: the {column.removeprefix('decoded_')} is not a valid "
        f"{payload.message_name}: "
        f"{payload.error}"
    )
    return batch_finding(block, batch_index, codes.PAYLOAD_MALFORMED, message, offset=offset)


def _bytes_or_none(data: bytes, start: int, size: int) -> bytes | None:
    return None if size < 0 else data[start : start + size]
