"""Blocks and records as sections, with the columns that only outputs need.

Positions, sequences, contents of control records, and keys and values from the topic's decoder.
"""

from __future__ import annotations

import numpy as np

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.json_text import json_text
from kfmt_cli.findings import damage as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import MAX_SEQUENCE, NO_SEQUENCE
from kfmt_cli.log.block import Block, batch_finding
from kfmt_cli.log.control import name_control_batches, read_control
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.records import Records, expansion, fill
from kfmt_cli.rows.section import Rows, Section
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.record import DECODED, DECODED_RECORD, RECORD
from kfmt_cli.topics.decoder import Decoded, Decoder

_OF_BATCHES = expansion(
    ("batch_position", "position", None, None),
    ("file_number", "file_number", None, None),
    ("timestamp_type", "timestamp_type", None, None),
    ("is_v2", "is_v2", None, None),
)
_OF_V2 = expansion(
    ("position", "records_position", "at", None),
    ("has_position", "is_plain", None, None),
    ("sequence", "base_sequence", "offset_delta", "has_sequence"),
    ("control", "control", None, None),
)


def batch_rows(block: Block) -> Rows:
    """The batches of a block."""
    name_control_batches(block)
    return Rows(Section(BATCH, block.batches))


def record_rows(
    block: Block, records: Records, decoder: Decoder | None = None, words: bool = False
) -> Rows:
    """The batches of a run, each with its records, which `complete` has filled.

    words: decoded values are lines for people instead of JSON.
    """
    if decoder is not None:
        inner = decoded(block, records, decoder, words)
    else:
        inner = Section(RECORD, records.rows, records.data, records.headers)
    return Rows(Section(BATCH, block.batches), inner, records.ends)


def read_complete(run: Block, limit: Limit) -> Records:
    """Decode the records of a run of batches, and complete both."""
    records = read_records(run, limit)
    complete(run, records)
    return records


def complete(block: Block, records: Records) -> None:
    """Fill the columns that only outputs need, and add malformed records to the findings."""
    records.add_columns()  # of an empty block, too
    batches, rows = block.batches, records.rows
    if not len(batches):
        return
    if not batches.is_v2[0]:
        fill(block, records, _OF_BATCHES[:2])
        return
    batches.is_plain = batches.compression == 0
    batches.has_sequence = batches.base_sequence >= 0
    fill(block, records, _OF_BATCHES)
    fill(block, records, _OF_V2)
    if batches.has_sequence.any():
        rows.sequence = np.where(
            rows.sequence > MAX_SEQUENCE, rows.sequence & MAX_SEQUENCE, rows.sequence
        )
    if (batches.base_sequence < NO_SEQUENCE).any():
        rows.sequence = np.maximum(rows.sequence, NO_SEQUENCE)  # as in `DefaultRecord.readFrom`
    records.findings += read_control(block, records)


def decoded(block: Block, records: Records, decoder: Decoder, words: bool) -> Section:
    """The records with their decoded keys and values.

    Adds findings for malformed ones to the records' findings.
    """
    from kfmt_cli.topics.saying import in_words

    # Each start column is followed by its length column.
    added = [column for name in DECODED for column in (name, f"{name}_size", f"has_{name}")]
    table = records.rows.adding(added)
    pieces: list[bytes] = []
    at = len(records.data)
    names = ("control", "key", "key_size", "value", "value_size")
    for row, (control, *places) in enumerate(
        zip(*(table[name].tolist() for name in names), strict=True)
    ):
        if control:
            continue
        key, value = (_bytes(records.data, *places[i : i + 2]) for i in (0, 2))
        made = (None if key is None else decoder.key(key), decoder.value(key, value))
        for name, each_decoded in zip(DECODED, made, strict=True):
            if each_decoded is None:
                continue
            if each_decoded.fault is not None:
                records.findings.append(_malformed(block, records, row, name, each_decoded))
            text = (
                in_words(each_decoded.values) if words else json_text(each_decoded.values)
            ).encode()
            table.data[table.names[name] + np.arange(3), row] = at, len(text), 1
            pieces.append(text)
            at += len(text)
    data = b"".join([records.data, *pieces])
    return Section(DECODED_RECORD, table, data, records.headers)


def _malformed(block: Block, records: Records, row: int, name: str, said: Decoded) -> Finding:
    """The finding for a key or value that is not a valid message of its type."""
    batch = int(np.searchsorted(records.ends, row, side="right"))
    offset = int(records.rows.offset[row])
    words = (
        f"offset {offset}: the {name.removeprefix('decoded_')} is not a valid {said.name}: "
        f"{said.fault}"
    )
    return batch_finding(block, batch, codes.PAYLOAD_MALFORMED, words, offset=offset)


def _bytes(data: bytes, start: int, size: int) -> bytes | None:
    return None if size < 0 else data[start : start + size]
