"""Columns of a block → Arrow arrays, without an object per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import encode
from kfmt_cli.core.native.table import BoolArray

# The years 1 to 9999, which readers of tables can show.
LEAST_MILLISECONDS, MOST_MILLISECONDS = -62_135_596_800_000, 253_402_300_799_999
TIME = pa.timestamp("us", "UTC")
# As consumers see it, and the key's bytes where its text is not all of it.
CONSUMED_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADER = pa.struct([*CONSUMED_HEADER.fields, pa.field("key_bytes", pa.binary())])


def integers(values: IntArray, type_: pa.DataType, given: BoolArray | None = None) -> pa.Array:
    """Numbers of 32 or 64 bits; null in rows that are not given."""
    numbers = np.ascontiguousarray(values, f"i{type_.bit_width // 8}")
    return pa.Array.from_buffers(type_, len(numbers), [_validity(given), pa.py_buffer(numbers)])


def times(milliseconds: IntArray, given: BoolArray | None = None) -> pa.Array:
    """Timestamps; null for -1 and for times outside the years 1 to 9999."""
    held = (milliseconds >= LEAST_MILLISECONDS) & (milliseconds <= MOST_MILLISECONDS)
    held &= milliseconds != -1
    if given is not None:
        held = held & given
    micros = np.where(held, milliseconds, 0) * 1000
    return pa.Array.from_buffers(TIME, len(micros), [_validity(held), pa.py_buffer(micros)])


def flags(values: IntArray, given: BoolArray | None = None) -> pa.Array:
    """Booleans."""
    bits = np.packbits(np.asarray(values) != 0, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(given), pa.py_buffer(bits)])


def octets(data: bytes, starts: IntArray, sizes: IntArray) -> pa.Array:
    """Parts of `data`, null for negative sizes. Their total must be less than 2 GiB."""
    plain = sizes.clip(0)
    ends = np.cumsum(plain)
    offsets = np.zeros(len(plain) + 1, np.int32)
    offsets[1:] = ends
    out = bytearray(int(ends[-1]) if len(ends) else 0)
    encode.gather(data, np.ascontiguousarray(starts), ends, out)
    given = sizes >= 0
    return pa.Array.from_buffers(
        pa.binary(),
        len(plain),
        [_validity(None if given.all() else given), pa.py_buffer(offsets), pa.py_buffer(out)],
    )


def words(values: IntArray, names: Sequence[str], given: BoolArray | None = None) -> pa.Array:
    """The names of numbers."""
    indices = np.asarray(values).clip(0, len(names) - 1).astype(np.int32)
    mask = None if given is None else ~given
    chosen = pa.DictionaryArray.from_arrays(pa.array(indices, mask=mask), pa.array(list(names)))
    return chosen.cast(pa.string())


def headers(
    data: bytes, children: IntArray, firsts: IntArray, counts: IntArray, given: BoolArray
) -> pa.Array:
    """Lists of key and value, and the bytes of keys that are not UTF-8; each row's headers are
    consecutive in `children`."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    counts = np.where(given, counts, 0)
    offsets[1:] = np.cumsum(counts)
    rows = np.repeat(firsts - offsets[:-1], counts) + np.arange(offsets[-1])
    children = children[:, rows]
    keys = octets(data, children[0], children[1])
    names = text(keys)
    is_whole = pc.equal(names.cast(pa.binary()), keys)
    lossy = pc.if_else(is_whole, None, keys)
    values = octets(data, children[2], children[3])
    items = pa.StructArray.from_arrays([names, values, lossy], fields=HEADER.fields)
    return pa.Array.from_buffers(
        pa.list_(pa.field("element", HEADER)),
        len(counts),
        [_validity(None if given.all() else given), pa.py_buffer(offsets)],
        children=[items],
    )


def text(values: pa.Array) -> pa.Array:
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


def _validity(given: BoolArray | None) -> pa.Buffer | None:
    return None if given is None else pa.py_buffer(np.packbits(given, bitorder="little"))
