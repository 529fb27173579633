"""Layouts read what they write; rows and columns agree on any bytes."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.location import BufferOrigin, DecodeError
from kfmt_cli.core.layout.tree import read_field_tree
from kfmt_cli.core.layout.wire_types import (
    ArrayWireType,
    BytesWireType,
    IntegerWireType,
    VarintWireType,
)
from kfmt_cli.core.native import kernel
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds import KINDS
from kfmt_cli.disk.kinds.fixed_size_rows import FixedSizeRowsReader
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH
from kfmt_cli.formats.control import CONTROL_RECORD_KEY, END_TXN_MARKER
from kfmt_cli.formats.legacy import MESSAGE_V0, MESSAGE_V1, NOTES_V0
from kfmt_cli.log.block import split_runs
from kfmt_cli.log.derived_columns import read_complete_records
from kfmt_cli.log.reader import LogReader
from kfmt_cli.rows.log_tables import BATCH_COLUMNS, RECORD_COLUMNS
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import RECORD_ROW as RECORD_ROWS
from tests.support.samples import ORDERS, TXN
from tests.support.segments import positions

LAYOUTS = [
    *(RECORD_BATCH, RECORD, MESSAGE_V0, MESSAGE_V1, CONTROL_RECORD_KEY, END_TXN_MARKER),
    NOTES_V0,
    *(
        layout
        for kind in KINDS
        if isinstance(kind.reader, FixedSizeRowsReader)
        for layout in kind.layouts
    ),
]
STATUS_NAMES = {code: name for name, code in kernel.STATUSES.items()}


def wire_values(wire_type: Any) -> st.SearchStrategy[Any]:
    """Values of a wire type."""
    if isinstance(wire_type, IntegerWireType):
        bits = 8 * wire_type.size
        return (
            st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
            if wire_type.signed
            else st.integers(0, (1 << bits) - 1)
        )
    if isinstance(wire_type, VarintWireType):
        return st.integers(-(1 << wire_type.bits - 1), (1 << wire_type.bits - 1) - 1)
    if isinstance(wire_type, BytesWireType):
        data = st.binary(max_size=200)
        return st.none() | data if wire_type.nullable else data
    assert isinstance(wire_type, ArrayWireType)
    return st.lists(layout_rows(wire_type.row_layout), max_size=5)


def layout_rows(layout: Layout) -> st.SearchStrategy[dict[str, Any]]:
    """Rows of a layout; the writer computes a framing length."""
    return st.fixed_dictionaries(
        {f.name: st.just(0) if f.is_frame_size else wire_values(f.type) for f in layout.fields}
    )


def without_frames(layout: Layout, values: dict[str, Any]) -> dict[str, Any]:
    return {f.name: values[f.name] for f in layout.fields if not f.is_frame_size}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_what_is_written_is_read_again(layout: Layout) -> None:
    @settings(max_examples=60, deadline=None)
    @given(layout_rows(layout))
    def check(values: dict[str, Any]) -> None:
        data = layout.encode_row(values)
        row, end = layout.read_row(data, 0, len(data), BufferOrigin("x"))
        assert end == len(data)
        assert without_frames(layout, row) == without_frames(layout, values)
        assert layout.encode_row(row) == data
        fields = read_field_tree(layout, data, 0, len(data)).children
        assert [field.name for field in fields] == [field.name for field in layout.fields]
        assert fields[0].start == 0
        assert fields[-1].end == len(data)
        assert all(left.end == right.start for left, right in pairwise(fields))

    check()


def rows_by_columns(layout: Layout, data: bytes, expected: int) -> tuple[list[Any], str, int]:
    """All rows that the kernel reads from a region, with the reader's status names."""
    columns = layout.decode_columns(data, np.array([0]), np.array([len(data)]), expected)
    rows = []
    for row_index in range(columns.rows.shape[1]):
        values: dict[str, Any] = {}
        for field in layout.fields:
            if isinstance(field.type, BytesWireType):
                values[field.name] = column_bytes(
                    data, columns.rows, columns.index_by_name[field.name], row_index
                )
            elif isinstance(field.type, ArrayWireType):
                first_child = int(columns[f"{field.name}_first"][row_index])
                values[field.name] = [
                    {
                        name: column_bytes(
                            data,
                            columns.children,
                            layout.child_index_by_name[name],
                            first_child + child_index,
                        )
                        for name in ("key", "value")
                    }
                    for child_index in range(int(columns[field.name][row_index]))
                ]
            else:
                values[field.name] = int(columns[field.name][row_index])
        rows.append(values)
    return rows, STATUS_NAMES[int(columns.regions[3, 0])], int(columns.regions[4, 0])


def column_bytes(data: bytes, columns: Any, column: int, row: int) -> bytes | None:
    start, length = int(columns[column, row]), int(columns[column + 1, row])
    return None if length < 0 else data[start : start + length]


def rows_by_reader(layout: Layout, data: bytes) -> tuple[list[Any], str, int]:
    """The same rows read one by one."""
    rows: list[Any] = []
    position = 0
    while position < len(data):
        try:
            values, position = layout.read_row(data, position, len(data), BufferOrigin("x"))
        except DecodeError as error:
            return rows, error.status, position
        rows.append(values)
    return rows, "OK", position


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_columns_are_the_rows_on_any_bytes(layout: Layout) -> None:
    @settings(max_examples=150, deadline=None)
    @given(st.lists(layout_rows(layout), max_size=6), st.binary(max_size=30), st.randoms())
    def check(rows: list[dict[str, Any]], tail: bytes, rng: random.Random) -> None:
        data = bytearray(b"".join(layout.encode_row(row) for row in rows) + tail)
        for _ in range(rng.randint(0, 3)):
            if data:
                data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        for expected in (0, 1, 10_000):
            assert rows_by_columns(layout, bytes(data), expected) == rows_by_reader(
                layout, bytes(data)
            )

    check()


def test_columns_are_the_rows_on_a_real_segment() -> None:
    data = ORDERS.read_bytes()
    starts = positions(data)
    for start, end in pairwise(starts):
        records = data[start + 61 : end]
        assert rows_by_columns(RECORD, records, 20) == rows_by_reader(RECORD, records)


def test_every_field_has_a_description() -> None:
    for layout in LAYOUTS:
        assert layout.doc
        assert layout.source
        for field in layout.fields:
            assert field.doc, f"{layout.name}.{field.name}"


def test_the_header_is_one_numpy_row() -> None:
    data = ORDERS.read_bytes()
    row = np.frombuffer(data, RECORD_BATCH.dtype, 1)[0]
    values, _ = RECORD_BATCH.read_row(data, 0, 61, BufferOrigin("x"))
    assert {name: int(row[name]) for name in values} == values


def test_an_error_says_where() -> None:
    data = ORDERS.read_bytes()[61:200]
    with pytest.raises(DecodeError) as raised:
        RECORD.read_row(data, 0, 30, BufferOrigin("a.log", 61), ("batch 0", "record 0"))
    assert str(raised.value) == (
        "a.log byte 61, batch 0 › record 0 › length: length 52, but only 29 bytes are left"
    )


def test_the_teaching_message_is_the_one_of_the_articles() -> None:
    value = b"this is the first message"
    data = NOTES_V0.encode_row(
        {"crc": 4252115574, "magic": 0, "attributes": 1, "key": b"first", "value": value}
    )
    assert len(data) == 48
    import zlib

    assert zlib.crc32(value) == 4252115574


@pytest.mark.parametrize("path", [ORDERS, TXN])
def test_columns_that_reading_does_not_fill_are_zero_whatever_memory_held(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tables() -> list[Any]:
        blocks = list(LogReader(open_source(str(path)), 0).iter_blocks())
        tables_of_runs = [
            read_complete_records(run, DecompressionLimit())
            for block in blocks
            for run in split_runs(block)
        ]
        return [
            (records.rows.index_by_name, records.rows.data.tolist()) for records in tables_of_runs
        ]

    expected = tables()

    def filled_array(shape: Any, dtype: Any = np.float64) -> Any:
        return np.full(shape, 94888712471374, dtype)

    monkeypatch.setattr(np, "empty", filled_array)
    assert tables() == expected
    assert tuple(expected[0][0]) == RECORD_COLUMNS


def test_the_tables_of_logs_have_the_columns_that_are_shown() -> None:
    assert set(BATCH_ROW.table_columns) <= set(BATCH_COLUMNS)
    # The kernel fills the stored fields, which come first and in its order.
    assert RECORD_COLUMNS[: len(RECORD.index_by_name)] == tuple(RECORD.index_by_name)
    assert set(RECORD_ROWS.table_columns) <= set(RECORD_COLUMNS)


def kernel_arguments() -> list[Any]:
    """The kernel's arguments for two records, with the span of one column."""
    data = b"".join(
        RECORD.encode_row(row) for row in [{**EMPTY, "offset_delta": i} for i in range(2)]
    )
    regions = np.zeros((5, 1), np.int64)
    regions[1] = len(data)
    rows, children = np.zeros((RECORD.n_columns, 2), np.int64), np.zeros((4, 1), np.int64)
    spanned, spans = np.array([RECORD.index_by_name["offset_delta"]]), np.zeros((1, 3, 1), np.int64)
    return [data, regions, RECORD.program.copy(), rows, children, spanned, spans]


EMPTY: dict[str, Any] = {
    "attributes": 0,
    "timestamp_delta": 0,
    "offset_delta": 0,
    "key": None,
    "value": b"",
    "headers": [],
}
DATA, REGIONS, PROGRAM, ROWS, CHILDREN, SPANNED, SPANS = range(7)


@pytest.mark.parametrize(
    ("argument_index", "position", "value"),
    [
        *((REGIONS, (0, 0), -1), (REGIONS, (1, 0), 1000)),
        *((PROGRAM, 1, -1), (PROGRAM, 1, 99), (PROGRAM, 3 * 4 + 1, RECORD.n_columns - 1)),
        *((PROGRAM, 3 * 7 + 1, 4), (PROGRAM, 3 * 6 + 2, 3), (PROGRAM, 3 + 2, 0)),
        (SPANNED, 0, RECORD.n_columns),
    ],
)
def test_the_kernel_refuses_what_would_leave_its_arrays(
    argument_index: int, position: Any, value: int
) -> None:
    """The kernel checks its arguments first, and the bytes while it reads."""
    arguments = kernel_arguments()
    assert kernel.decode(*arguments) == 2
    assert arguments[SPANS][0, :, 0].tolist() == [0, 1, 1]
    arguments[argument_index][position] = value
    with pytest.raises(IndexError, match="outside its array"):
        kernel.decode(*arguments)


@pytest.mark.parametrize(
    ("argument_index", "shape"),
    [
        *((REGIONS, (4, 1)), (PROGRAM, (4,)), (ROWS, (RECORD.n_columns - 1, 2)), (ROWS, (0, 2))),
        *(
            (ROWS, (RECORD.n_columns, 0)),
            (CHILDREN, (3, 1)),
            (SPANS, (1, 2, 1)),
            (SPANS, (1, 3, 0)),
        ),
        (SPANS, (0, 3, 1)),
    ],
)
def test_the_kernel_refuses_arrays_of_other_shapes(argument_index: int, shape: Any) -> None:
    arguments = kernel_arguments()
    arguments[argument_index] = np.zeros(shape, np.int64)
    with pytest.raises(IndexError, match="outside its array"):
        kernel.decode(*arguments)
