"""The bulk writer: runs a template over columns and writes text, JSON, CSV or table cells alike.

The counterpart of `core/native/kernel.py`, and also ordinary Python that Cython compiles. A
template is a list of instructions of four integers (operation, a, b, c) built by
`render/template.py`. It defines the text of one row, with numbers from the columns and bytes from
the block that the columns refer to. This module knows no Kafka format and no terminal.

Text from the block is never written raw: in JSON every control character is escaped (also DEL and
the C1 block), in table cells every character that is not printable. All writes are checked against
the buffer: a row is only begun if its maximum size fits, and bounds checks stay on.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

if cython.compiled:
    from cython.cimports.kfmt_cli.core.native.cell import end_cell, put_cell_bytes
    from cython.cimports.kfmt_cli.core.native.quote import (
        csv_encoding,
        double_quotes,
        put_csv_bytes,
        put_json_bytes,
    )
    from cython.cimports.kfmt_cli.core.native.row_bounds import max_row_bytes
    from cython.cimports.kfmt_cli.core.native.text import (
        Writer,
        copy_bytes,
        put_byte,
        put_hex_digit,
        put_literal,
        put_number,
        put_time,
    )
else:
    from kfmt_cli.core.native.cell import end_cell, put_cell_bytes
    from kfmt_cli.core.native.quote import (
        csv_encoding,
        double_quotes,
        put_csv_bytes,
        put_json_bytes,
    )
    from kfmt_cli.core.native.row_bounds import max_row_bytes
    from kfmt_cli.core.native.text import (
        Writer,
        copy_bytes,
        put_byte,
        put_hex_digit,
        put_literal,
        put_number,
        put_time,
    )

COMPILED: bool = bool(cython.compiled)

LITERAL = cython.declare(cython.int, 0)  # a: entry of the literal table
NUMBER = cython.declare(cython.int, 1)  # a: column
GROUPED = cython.declare(cython.int, 2)  # a: column; with spaces between thousands
CHOICE = cython.declare(cython.int, 3)  # a: column, b: first literal, c: how many; else a number
HEX32 = cython.declare(cython.int, 4)  # a: column; eight digits
TIME = cython.declare(cython.int, 5)  # a: column of ms since the epoch; ISO-8601, UTC
JSON_BYTES = cython.declare(cython.int, 6)  # a: start column, b: mode, c: literal ',"x_encoding":'
CSV_BYTES = cython.declare(cython.int, 7)  # a: start column, b: mode
CELL_BYTES = cython.declare(cython.int, 8)  # a: start column, b: mode, c: max width (0: no limit)
IF = cython.declare(cython.int, 9)  # a: column, b: value, c: instructions skipped unless equal
EACH = cython.declare(cython.int, 10)  # a: count column, b: instructions, c: separator literal
CELL = cython.declare(cython.int, 11)  # a cell begins; it ends at END_CELL
END_CELL = cython.declare(cython.int, 12)  # a: width, b: alignment, c: 1 truncates (see `end_cell`)
QUOTE = cython.declare(cython.int, 13)  # a CSV field begins
END_QUOTE = cython.declare(cython.int, 14)  # a CSV field ends; quotes in it are doubled
UNLESS = cython.declare(cython.int, 16)  # a: column, b: value, c: instructions skipped if equal
ENCODING = cython.declare(cython.int, 15)  # a: start column, b: mode, c: literals; of CSV_BYTES
RAW = cython.declare(cython.int, 17)  # a: start column; bytes that are already safe text

OPS = {
    "LITERAL": LITERAL,
    "NUMBER": NUMBER,
    "GROUPED": GROUPED,
    "CHOICE": CHOICE,
    "HEX32": HEX32,
    "TIME": TIME,
    "JSON_BYTES": JSON_BYTES,
    "CSV_BYTES": CSV_BYTES,
    "CELL_BYTES": CELL_BYTES,
    "IF": IF,
    "EACH": EACH,
    "CELL": CELL,
    "END_CELL": END_CELL,
    "QUOTE": QUOTE,
    "END_QUOTE": END_QUOTE,
    "ENCODING": ENCODING,
    "UNLESS": UNLESS,
    "RAW": RAW,
}


HEX = cython.declare(cython.int, 2)  # the first mode of `quote.MODES` that is not text


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _write_row(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    program: cython.const[cython.longlong][:, ::1],
    program_position: cython.Py_ssize_t,
    program_end: cython.Py_ssize_t,
    columns: cython.const[cython.longlong][:, ::1],
    row: cython.Py_ssize_t,
    children: cython.const[cython.longlong][:, ::1],
) -> cython.int:
    """Run the instructions in [pc, end) for one row."""
    operation: cython.int
    operand_a: cython.Py_ssize_t
    operand_b: cython.longlong
    operand_c: cython.longlong
    value: cython.longlong
    i: cython.Py_ssize_t
    cell_start: cython.Py_ssize_t = 0
    quote_start: cython.Py_ssize_t = 0
    while program_position < program_end:
        operation = cython.cast(cython.int, program[program_position, 0])
        operand_a = program[program_position, 1]
        operand_b = program[program_position, 2]
        operand_c = program[program_position, 3]
        program_position += 1
        if operation == LITERAL:
            put_literal(writer, operand_a)
        elif operation == NUMBER:
            put_number(writer, columns[operand_a, row], False)
        elif operation == JSON_BYTES:
            put_json_bytes(
                writer,
                data,
                columns[operand_a, row],
                columns[operand_a + 1, row],
                cython.cast(cython.int, operand_b),
                operand_c,
            )
        elif operation == IF:
            if columns[operand_a, row] != operand_b:
                program_position += operand_c
        elif operation == UNLESS:
            if columns[operand_a, row] == operand_b:
                program_position += operand_c
        elif operation == CHOICE:
            value = columns[operand_a, row]
            if value >= 0 and value < operand_c:
                put_literal(writer, operand_b + value)
            else:
                put_literal(writer, operand_b + operand_c)
                put_number(writer, value, False)
                put_literal(writer, operand_b + operand_c + 1)
        elif operation == GROUPED:
            put_number(writer, columns[operand_a, row], True)
        elif operation == HEX32:
            value = columns[operand_a, row]
            for i in range(8):
                put_hex_digit(writer, cython.cast(cython.int, (value >> (28 - 4 * i)) & 15))
        elif operation == TIME:
            put_time(writer, columns[operand_a, row])
        elif operation == EACH:
            value = columns[operand_a, row]
            for i in range(value):
                if i > 0:
                    put_literal(writer, operand_c)
                _write_row(
                    writer,
                    data,
                    program,
                    program_position,
                    program_position + operand_b,
                    children,
                    columns[operand_a + 1, row] + i,
                    children,
                )
            program_position += operand_b
        elif operation == CELL:
            cell_start = writer.at
            writer.width = 0
        elif operation == END_CELL:
            end_cell(
                writer, cell_start, operand_a, cython.cast(cython.int, operand_b), operand_c != 0
            )
        elif operation == CELL_BYTES:
            put_cell_bytes(
                writer,
                data,
                columns[operand_a, row],
                columns[operand_a + 1, row],
                cython.cast(cython.int, operand_b),
                operand_c,
            )
        elif operation == CSV_BYTES:
            put_csv_bytes(
                writer,
                data,
                columns[operand_a, row],
                columns[operand_a + 1, row],
                cython.cast(cython.int, operand_b),
            )
        elif operation == ENCODING:
            value = csv_encoding(
                data,
                columns[operand_a, row],
                columns[operand_a + 1, row],
                cython.cast(cython.int, operand_b),
            )
            if value >= HEX:
                put_literal(writer, operand_c + value - HEX)
        elif operation == RAW:
            copy_bytes(writer, data, columns[operand_a, row], columns[operand_a + 1, row])
        elif operation == QUOTE:
            put_byte(writer, 34)
            quote_start = writer.at
        elif operation == END_QUOTE:
            double_quotes(writer, quote_start)
            put_byte(writer, 34)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _write_rows(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    program: cython.const[cython.longlong][:, ::1],
    shape: cython.const[cython.longlong][::1],
    columns: cython.const[cython.longlong][:, ::1],
    children: cython.const[cython.longlong][:, ::1],
    row: cython.Py_ssize_t,
    end_row: cython.Py_ssize_t,
) -> cython.longlong:
    capacity: cython.Py_ssize_t = writer.out.shape[0]
    while row < end_row:
        if max_row_bytes(data, shape, columns, row, children) > capacity - writer.at:
            return row
        _write_row(writer, data, program, 0, program.shape[0], columns, row, children)
        row += 1
    return row


def emit(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    program: cython.const[cython.longlong][:, ::1],
    shape: cython.const[cython.longlong][::1],
    columns: cython.const[cython.longlong][:, ::1],
    children: cython.const[cython.longlong][:, ::1],
    row: cython.Py_ssize_t,
    end_row: cython.Py_ssize_t,
):
    """Write the rows in [row, end) at `writer.at`; returns the first that may not fit, or
    `end_row`.

    `program` is (instructions, 4). `shape` bounds the size of a row: [bytes of its literals and
    numbers, the same of an array row, the array's count column or -1, n, the start columns of its n
    bytes fields, the start columns of an array row's bytes fields].
    """
    with cython.nogil:
        row = _write_rows(writer, data, program, shape, columns, children, row, end_row)
    return row


def emit_nested(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    outer_program: cython.const[cython.longlong][:, ::1],
    outer_shape: cython.const[cython.longlong][::1],
    outer_columns: cython.const[cython.longlong][:, ::1],
    inner_program: cython.const[cython.longlong][:, ::1],
    inner_shape: cython.const[cython.longlong][::1],
    inner_columns: cython.const[cython.longlong][:, ::1],
    children: cython.const[cython.longlong][:, ::1],
    inner_ends: cython.const[cython.longlong][::1],
    resume_state: cython.longlong[::1],
    outer_end: cython.Py_ssize_t,
):
    """Write each outer row before `outer_end`, followed by its inner rows.

    inner_ends: the end (exclusive) of each outer row's inner rows. resume_state: (outer row, inner
    row, 1 if the outer row is already written), where writing starts; updated to where it continues
    if the buffer is full.
    """
    outer_row: cython.Py_ssize_t = resume_state[0]
    inner_row: cython.Py_ssize_t = resume_state[1]
    next_row: cython.longlong
    capacity: cython.Py_ssize_t = writer.out.shape[0]
    with cython.nogil:
        while outer_row < outer_end:
            if resume_state[2] == 0:
                if (
                    max_row_bytes(data, outer_shape, outer_columns, outer_row, children)
                    > capacity - writer.at
                ):
                    break
                _write_row(
                    writer,
                    data,
                    outer_program,
                    0,
                    outer_program.shape[0],
                    outer_columns,
                    outer_row,
                    children,
                )
                resume_state[2] = 1
            next_row = _write_rows(
                writer,
                data,
                inner_program,
                inner_shape,
                inner_columns,
                children,
                inner_row,
                inner_ends[outer_row],
            )
            inner_row = next_row
            if inner_row < inner_ends[outer_row]:
                break
            resume_state[2] = 0
            outer_row += 1
        resume_state[0] = outer_row
        resume_state[1] = inner_row
