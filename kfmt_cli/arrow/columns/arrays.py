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
    values: IntArray, type_: pa.DataType, is_valid: BoolArray | None = None
) -> pa.Array:
    """Integers of 32 or 64 bits; null in rows that are not valid."""
    contiguous_values = np.ascontiguousarray(values, f"i{type_.bit_width // 8}")
    return pa.Array.from_buffers(
        type_, len(contiguous_values), [_validity_buffer(is_valid), pa.py_buffer(contiguous_values)]
    )


def timestamp_array(milliseconds: IntArray, is_valid: BoolArray | None = None) -> pa.Array:
    """Timestamps; null for -1 and for times outside the years 1 to 9999."""
    in_range = (milliseconds >= MIN_TIMESTAMP_MS) & (milliseconds <= MAX_TIMESTAMP_MS)
    in_range &= milliseconds != -1
    if is_valid is not None:
        in_range = in_range & is_valid
    microseconds = np.where(in_range, milliseconds, 0) * 1000
    return pa.Array.from_buffers(
        TIMESTAMP_TYPE, len(microseconds), [_validity_buffer(in_range), pa.py_buffer(microseconds)]
    )


def flag_array(values: IntArray, is_valid: BoolArray | None = None) -> pa.Array:
    """Booleans: true for values other than 0."""
    bits = np.packbits(np.asarray(values) != 0, bitorder="little")
    return pa.Array.from_buffers(
        pa.bool_(), len(values), [_validity_buffer(is_valid), pa.py_buffer(bits)]
    )


def binary_array(data: bytes, starts: IntArray, sizes: IntArray) -> pa.Array:
    """Byte strings from `data`; null for negative sizes. Their total must be less than 2 GiB."""
    lengths = sizes.clip(0)
    ends = np.cumsum(lengths)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    offsets[1:] = ends
    out = bytearray(int(ends[-1]) if len(ends) else 0)
    encode.gather_bytes(data, np.ascontiguousarray(starts), ends, out)
    is_valid = sizes >= 0
    return pa.Array.from_buffers(
        pa.binary(),
        len(lengths),
        [
            _validity_buffer(None if is_valid.all() else is_valid),
            pa.py_buffer(offsets),
            pa.py_buffer(out),
        ],
    )


def choice_array(
    values: IntArray, names: Sequence[str], is_valid: BoolArray | None = None
) -> pa.Array:
    """The names for numbers, as text; numbers out of range get the first or last name."""
    indices = np.asarray(values).clip(0, len(names) - 1).astype(np.int32)
    null_mask = None if is_valid is None else ~is_valid
    names_array = pa.DictionaryArray.from_arrays(
        pa.array(indices, mask=null_mask), pa.array(list(names))
    )
    return names_array.cast(pa.string())


def header_array(
    data: bytes, children: IntArray, first_children: IntArray, counts: IntArray, is_valid: BoolArray
) -> pa.Array:
    """Lists of headers: key, value, and the key's bytes if they are not UTF-8. The headers of a row
    are consecutive in `children`."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    counts = np.where(is_valid, counts, 0)
    offsets[1:] = np.cumsum(counts)
    child_indexes = np.repeat(first_children - offsets[:-1], counts) + np.arange(offsets[-1])
    children = children[:, child_indexes]
    keys = binary_array(data, children[0], children[1])
    key_texts = text_array(keys)
    is_utf8 = pc.equal(key_texts.cast(pa.binary()), keys)
    invalid_keys = pc.if_else(is_utf8, None, keys)
    values = binary_array(data, children[2], children[3])
    header_items = pa.StructArray.from_arrays(
        [key_texts, values, invalid_keys], fields=HEADER_TYPE.fields
    )
    return pa.Array.from_buffers(
        pa.list_(pa.field("element", HEADER_TYPE)),
        len(counts),
        [_validity_buffer(None if is_valid.all() else is_valid), pa.py_buffer(offsets)],
        children=[header_items],
    )


def text_array(values: pa.Array) -> pa.Array:
    """Bytes as text. Invalid UTF-8 is replaced, because a string column allows only valid text."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [
                None if data is None else data.decode(errors="replace")
                for data in values.to_pylist()
            ],
            pa.string(),
        )


def _validity_buffer(is_valid: BoolArray | None) -> pa.Buffer | None:
    return None if is_valid is None else pa.py_buffer(np.packbits(is_valid, bitorder="little"))
