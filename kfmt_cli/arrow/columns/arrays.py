"""Converts columns of a block to Arrow arrays, without an object per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import encode
from kfmt_cli.core.table import BoolArray

# The years 1 to 9999, the range that table readers can display.
MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS = -62_135_596_800_000, 253_402_300_799_999
TIMESTAMP_TYPE = pa.timestamp("us", "UTC")
# A header as consumers see it; then also with the key's bytes if they are not valid UTF-8.
CONSUMER_HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADER_TYPE = pa.struct([*CONSUMER_HEADER_TYPE.fields, pa.field("key_bytes", pa.binary())])


def integer_array(
    values: IntArray, type_: pa.DataType, valid_mask: BoolArray | None = None
) -> pa.Array:
    """Integers of 32 or 64 bits; null in rows that are not valid."""
    contiguous_values = np.ascontiguousarray(values, f"i{type_.bit_width // 8}")
    return pa.Array.from_buffers(
        type_,
        len(contiguous_values),
        [_validity_buffer(valid_mask), pa.py_buffer(contiguous_values)],
    )


def timestamp_array(milliseconds: IntArray, valid_mask: BoolArray | None = None) -> pa.Array:
    """Timestamps; null for -1 and for times outside the years 1 to 9999."""
    displayable_mask = (milliseconds >= MIN_TIMESTAMP_MS) & (milliseconds <= MAX_TIMESTAMP_MS)
    displayable_mask &= milliseconds != -1
    if valid_mask is not None:
        displayable_mask = displayable_mask & valid_mask
    microseconds = np.where(displayable_mask, milliseconds, 0) * 1000
    return pa.Array.from_buffers(
        TIMESTAMP_TYPE,
        len(microseconds),
        [_validity_buffer(displayable_mask), pa.py_buffer(microseconds)],
    )


def flag_array(values: IntArray, valid_mask: BoolArray | None = None) -> pa.Array:
    """Booleans: true for values other than 0."""
    packed_bits = np.packbits(np.asarray(values) != 0, bitorder="little")
    return pa.Array.from_buffers(
        pa.bool_(), len(values), [_validity_buffer(valid_mask), pa.py_buffer(packed_bits)]
    )


def binary_array(source_bytes: bytes, value_starts: IntArray, value_sizes: IntArray) -> pa.Array:
    """Byte strings from `source_bytes`; null for negative sizes. Their total must be less than 2
    GiB."""
    clipped_sizes = value_sizes.clip(0)
    value_ends = np.cumsum(clipped_sizes)
    value_offsets = np.zeros(len(clipped_sizes) + 1, np.int32)
    value_offsets[1:] = value_ends
    gathered_bytes = bytearray(int(value_ends[-1]) if len(value_ends) else 0)
    encode.gather_bytes(
        source_bytes, np.ascontiguousarray(value_starts), value_ends, gathered_bytes
    )
    valid_mask = value_sizes >= 0
    return pa.Array.from_buffers(
        pa.binary(),
        len(clipped_sizes),
        [
            _validity_buffer(None if valid_mask.all() else valid_mask),
            pa.py_buffer(value_offsets),
            pa.py_buffer(gathered_bytes),
        ],
    )


def choice_array(
    values: IntArray, choice_names: Sequence[str], valid_mask: BoolArray | None = None
) -> pa.Array:
    """The names for numbers, as text; numbers out of range get the first or last name."""
    choice_indexes = np.asarray(values).clip(0, len(choice_names) - 1).astype(np.int32)
    null_mask = None if valid_mask is None else ~valid_mask
    names_array = pa.DictionaryArray.from_arrays(
        pa.array(choice_indexes, mask=null_mask), pa.array(list(choice_names))
    )
    return names_array.cast(pa.string())


def header_array(
    source_bytes: bytes,
    header_columns: IntArray,
    first_header_indexes: IntArray,
    header_counts: IntArray,
    valid_mask: BoolArray,
) -> pa.Array:
    """Lists of headers: key, value, and the key's bytes if they are not UTF-8. The headers of a row
    are consecutive in `header_columns`."""
    list_offsets = np.zeros(len(header_counts) + 1, np.int32)
    header_counts = np.where(valid_mask, header_counts, 0)
    list_offsets[1:] = np.cumsum(header_counts)
    header_indexes = np.repeat(first_header_indexes - list_offsets[:-1], header_counts) + np.arange(
        list_offsets[-1]
    )
    header_columns = header_columns[:, header_indexes]
    header_keys = binary_array(source_bytes, header_columns[0], header_columns[1])
    key_texts = text_array(header_keys)
    is_utf8 = pc.equal(key_texts.cast(pa.binary()), header_keys)
    invalid_keys = pc.if_else(is_utf8, None, header_keys)
    header_values = binary_array(source_bytes, header_columns[2], header_columns[3])
    header_items = pa.StructArray.from_arrays(
        [key_texts, header_values, invalid_keys], fields=HEADER_TYPE.fields
    )
    return pa.Array.from_buffers(
        pa.list_(pa.field("element", HEADER_TYPE)),
        len(header_counts),
        [_validity_buffer(None if valid_mask.all() else valid_mask), pa.py_buffer(list_offsets)],
        children=[header_items],
    )


def text_array(binary_values: pa.Array) -> pa.Array:
    """Bytes as text. Invalid UTF-8 is replaced, because a string column allows only valid text."""
    try:
        return binary_values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [
                None if value_bytes is None else value_bytes.decode(errors="replace")
                for value_bytes in binary_values.to_pylist()
            ],
            pa.string(),
        )


def _validity_buffer(valid_mask: BoolArray | None) -> pa.Buffer | None:
    return None if valid_mask is None else pa.py_buffer(np.packbits(valid_mask, bitorder="little"))
