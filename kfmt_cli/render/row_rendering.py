"""Apply templates to rows of tables, with reused buffers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from kfmt_cli.core.layout.layout import IntArray
from kfmt_cli.core.native import emit, text
from kfmt_cli.core.native import row_bounds as bound
from kfmt_cli.render.template import Template
from kfmt_cli.rows.columnar_rows import ColumnarRows

BUFFER_BYTES = 1 << 20
MAX_FREE_BUFFERS = 32

# Non-ASCII characters that every terminal shows plainly: first, last, columns. Everything else is
# escaped: controls, invisible and combining characters, changes of writing direction.
PRINTABLE_RANGES = np.array(
    [
        (0x00A1, 0x00AC, 1),
        (0x00AE, 0x02FF, 1),
        (0x0370, 0x0377, 1),
        (0x037A, 0x037F, 1),
        (0x0384, 0x0482, 1),
        (0x048A, 0x052F, 1),
        (0x0531, 0x0556, 1),
        (0x0561, 0x0587, 1),
        (0x05D0, 0x05EA, 1),
        (0x0620, 0x064A, 1),
        (0x0660, 0x066F, 1),
        (0x0671, 0x06D3, 1),
        (0x0904, 0x0939, 1),
        (0x0E01, 0x0E30, 1),
        (0x10D0, 0x10FF, 1),
        (0x1100, 0x115F, 2),
        (0x1E00, 0x1EFF, 1),
        (0x2010, 0x2027, 1),
        (0x2030, 0x205E, 1),
        (0x20A0, 0x20BF, 1),
        (0x2100, 0x218B, 1),
        (0x2190, 0x2319, 1),
        (0x2500, 0x25FC, 1),
        (0x2713, 0x2717, 1),
        (0x3001, 0x3029, 2),
        (0x3041, 0x3096, 2),
        (0x309B, 0x30FF, 2),
        (0x3105, 0x312F, 2),
        (0x3131, 0x318E, 2),
        (0x3400, 0x4DBF, 2),
        (0x4E00, 0x9FFF, 2),
        (0xAC00, 0xD7A3, 2),
        (0xFF01, 0xFF60, 2),
        (0x1F300, 0x1F3FA, 2),
        (0x1F400, 0x1F64F, 2),
        (0x1F680, 0x1F6C5, 2),
        (0x1F90D, 0x1F9FF, 2),
        (0x20000, 0x2FA1D, 2),
    ],
    np.int64,
).T.copy()


# Buffers free for reuse: new memory costs more than filling it.
_free_buffers: deque[bytearray] = deque()


def recycle_buffer(chunk: memoryview) -> None:
    """Return the buffer of a written chunk for reuse."""
    buffer = chunk.obj
    chunk.release()
    if (
        isinstance(buffer, bytearray)
        and len(buffer) == BUFFER_BYTES
        and len(_free_buffers) < MAX_FREE_BUFFERS
    ):
        _free_buffers.append(buffer)


def _create_text_writer(template: Template, min_bytes: int = 0) -> tuple[text.Writer, bytearray]:
    """Create a writer at the start of a buffer of at least `min_bytes`."""
    try:
        buffer = _free_buffers.popleft() if min_bytes <= BUFFER_BYTES else bytearray(min_bytes)
    except IndexError:
        buffer = bytearray(BUFFER_BYTES)
    literals = template.literals
    return text.Writer(
        buffer, literals.concatenated_bytes, literals.literal_layout, PRINTABLE_RANGES
    ), buffer


def _buffer_prefix(buffer: bytearray, n_bytes: int) -> memoryview:
    """The first `n_bytes` bytes of a buffer; a copy if the buffer is mostly empty, as chunks may
    have to wait."""
    with memoryview(buffer) as view:
        if n_bytes > len(buffer) // 4:
            return memoryview(buffer)[:n_bytes]
        copied_chunk = memoryview(bytes(view[:n_bytes]))
    if len(buffer) == BUFFER_BYTES and len(_free_buffers) < MAX_FREE_BUFFERS:
        _free_buffers.append(buffer)
    return copied_chunk


def render_rows(
    template: Template, columnar_rows: ColumnarRows, first_row: int, end_row: int
) -> Iterator[memoryview]:
    """The text of rows first..last-1, in chunks to pass to `recycle_buffer`."""
    payload_bytes, row_columns, child_columns = (
        columnar_rows.data,
        columnar_rows.table.data,
        columnar_rows.children,
    )
    min_bytes = 0
    while first_row < end_row:
        writer, buffer = _create_text_writer(template, min_bytes)
        next_row = emit.emit(
            writer,
            payload_bytes,
            template.program,
            template.row_size_limits,
            row_columns,
            child_columns,
            first_row,
            end_row,
        )
        yield _buffer_prefix(buffer, writer.at)
        min_bytes = 0
        if next_row == first_row:  # a row larger than the buffer
            min_bytes = bound.row_bytes_bound(
                payload_bytes, template.row_size_limits, row_columns, first_row, child_columns
            )
        first_row = next_row


def render_nested_rows(
    outer: tuple[Template, ColumnarRows],
    inner: tuple[Template, ColumnarRows],
    inner_ends: IntArray,
    first_row: int,
    end_row: int,
) -> Iterator[memoryview]:
    """The text of outer rows first..last-1, each with its inner rows below it, in chunks.

    inner_ends: `ends[i]` is the exclusive end of the inner rows of outer row i.
    """
    outer_template, outer_rows = outer
    inner_template, inner_rows = inner
    emit_state = np.array([first_row, inner_ends[first_row - 1] if first_row else 0, 0], np.int64)
    min_bytes = 0
    while emit_state[0] < end_row:
        writer, buffer = _create_text_writer(outer_template, min_bytes)
        emit.emit_nested(
            writer,
            inner_rows.data,
            outer_template.program,
            outer_template.row_size_limits,
            outer_rows.table.data,
            inner_template.program,
            inner_template.row_size_limits,
            inner_rows.table.data,
            inner_rows.children,
            inner_ends,
            emit_state,
            end_row,
        )
        min_bytes = 0
        if writer.at == 0 and emit_state[0] < end_row:  # a row larger than the buffer
            template, rows, row_index = (
                (inner_template, inner_rows, emit_state[1])
                if emit_state[2]
                else (outer_template, outer_rows, emit_state[0])
            )
            min_bytes = bound.row_bytes_bound(
                inner_rows.data,
                template.row_size_limits,
                rows.table.data,
                int(row_index),
                inner_rows.children,
            )
        yield _buffer_prefix(buffer, writer.at)
