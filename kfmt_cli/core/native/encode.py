"""The bulk encoder: the inverse of `kernel.py`, for the same programs and the same columns.

Rows are first measured, then written where the caller decides, so that headers and gaps can come
between them. Ordinary Python that Cython also compiles.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

COMPILED: bool = bool(cython.compiled)

# The operations of `kernel.py`.
INT = cython.declare(cython.int, 1)
UINT = cython.declare(cython.int, 2)
BYTES = cython.declare(cython.int, 3)
FRAME = cython.declare(cython.int, 4)
ZIGZAG = cython.declare(cython.int, 8)
UVARINT = cython.declare(cython.int, 9)
ZIGZAG_BYTES = cython.declare(cython.int, 10)
ZIGZAG_FRAME = cython.declare(cython.int, 11)
ZIGZAG_REPEAT = cython.declare(cython.int, 12)

MASK_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
MASK_64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _varint_value(
    operation: cython.int, argument: cython.longlong, value: cython.longlong
) -> cython.ulonglong:
    """The unsigned number that a varint operation writes for a value; lengths have 32 bits."""
    zigzag: cython.ulonglong
    if operation == UVARINT:
        return cython.cast(cython.ulonglong, value)
    # In steps that overflow neither in C nor in NumPy.
    if value >= 0:
        zigzag = cython.cast(cython.ulonglong, value) * 2
    else:
        zigzag = cython.cast(cython.ulonglong, -(value + 1)) * 2 + 1
    return zigzag & (MASK_64 if operation == ZIGZAG and argument == 64 else MASK_32)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _varint_size(unsigned: cython.ulonglong) -> cython.longlong:
    n_bytes: cython.longlong = 1
    while unsigned >= 0x80:
        unsigned >>= 7
        n_bytes += 1
    return n_bytes


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_varint(
    output: cython.uchar[::1], position: cython.Py_ssize_t, unsigned: cython.ulonglong
) -> cython.Py_ssize_t:
    while unsigned >= 0x80:
        output[position] = cython.cast(cython.uchar, (unsigned & 0x7F) | 0x80)
        unsigned >>= 7
        position += 1
    output[position] = cython.cast(cython.uchar, unsigned)
    return position + 1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_int(
    output: cython.uchar[::1],
    start: cython.Py_ssize_t,
    size: cython.longlong,
    value: cython.longlong,
) -> cython.Py_ssize_t:
    position: cython.Py_ssize_t = start + cython.cast(cython.Py_ssize_t, size)
    end: cython.Py_ssize_t = position
    while position > start:
        position -= 1
        output[position] = cython.cast(cython.uchar, value & 0xFF)
        value >>= 8
    return end


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_bytes(
    output: cython.uchar[::1],
    position: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    start: cython.longlong,
    size: cython.longlong,
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    n_bytes: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, size)
    first_byte: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, start)
    if n_bytes <= 0:
        return position
    # The bounds of the first and the last byte are checked here, and so are all others.
    output[position] = data[first_byte]
    output[position + n_bytes - 1] = data[first_byte + n_bytes - 1]
    if cython.compiled:
        memcpy(cython.address(output[position]), cython.address(data[first_byte]), n_bytes)
    else:
        for i in range(n_bytes):
            output[position + i] = data[first_byte + i]
    return position + n_bytes


def gather_bytes(
    data: cython.const[cython.uchar][::1],
    source_starts: cython.const[cython.longlong][::1],
    output_ends: cython.const[cython.longlong][::1],
    output: cython.uchar[::1],
) -> None:
    """Copy byte ranges of `data` to `output`, one after another.

    source_starts: where each begins in `data`. output_ends: where each ends in `output`.
    """
    i: cython.Py_ssize_t
    position: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(source_starts.shape[0]):
            position = _put_bytes(
                output, position, data, source_starts[i], output_ends[i] - position
            )


def measure_rows(
    program: cython.const[cython.longlong][::1],
    rows: cython.longlong[:, ::1],
    children: cython.longlong[:, ::1],
    body_sizes: cython.longlong[::1],
    row_sizes: cython.longlong[::1],
) -> None:
    """Compute the sizes of rows in bytes.

    row_sizes: output, the entire rows. body_sizes: output, the part of each row that follows its
    frame size; the entire row without one.
    """
    row: cython.Py_ssize_t
    child: cython.Py_ssize_t
    program_position: cython.Py_ssize_t
    array_program_end: cython.Py_ssize_t
    element_position: cython.Py_ssize_t
    program_size: cython.Py_ssize_t = program.shape[0]
    operation: cython.int
    column: cython.Py_ssize_t
    argument: cython.longlong
    value: cython.longlong
    n_bytes: cython.longlong
    n_prefix_bytes: cython.longlong
    frame_operation: cython.int
    frame_argument: cython.longlong
    with cython.nogil:
        for row in range(rows.shape[1]):
            n_bytes = 0
            n_prefix_bytes = 0  # bytes before the frame size
            frame_operation = 0
            frame_argument = 0
            program_position = 0
            while program_position < program_size:
                operation = cython.cast(cython.int, program[program_position])
                column = program[program_position + 1]
                argument = program[program_position + 2]
                program_position += 3
                if operation == FRAME or operation == ZIGZAG_FRAME:
                    n_prefix_bytes = n_bytes
                    n_bytes = 0
                    frame_operation = operation
                    frame_argument = argument
                elif operation == INT or operation == UINT:
                    n_bytes += argument
                elif operation == BYTES:
                    value = rows[column + 1, row]
                    n_bytes += argument + (value if value > 0 else 0)
                elif operation == ZIGZAG_BYTES:
                    value = rows[column + 1, row]
                    n_bytes += _varint_size(_varint_value(operation, 0, value)) + (
                        value if value > 0 else 0
                    )
                elif operation == ZIGZAG_REPEAT:
                    value = rows[column, row]
                    n_bytes += _varint_size(_varint_value(operation, 0, value))
                    array_program_end = program_position + 3 * cython.cast(
                        cython.Py_ssize_t, argument
                    )
                    child = rows[column + 1, row]
                    while value > 0:
                        for element_position in range(program_position, array_program_end, 3):
                            operation = cython.cast(cython.int, program[element_position])
                            column = program[element_position + 1]
                            argument = children[column + 1, child]
                            n_bytes += _varint_size(_varint_value(operation, 0, argument))
                            n_bytes += argument if argument > 0 else 0
                        child += 1
                        value -= 1
                    program_position = array_program_end
                else:
                    n_bytes += _varint_size(_varint_value(operation, argument, rows[column, row]))
            body_sizes[row] = n_bytes
            if frame_operation == ZIGZAG_FRAME:
                n_bytes += _varint_size(_varint_value(frame_operation, 0, n_bytes))
            elif frame_operation == FRAME:
                n_bytes += frame_argument
            row_sizes[row] = n_prefix_bytes + n_bytes


def encode(
    data: cython.const[cython.uchar][::1],
    program: cython.const[cython.longlong][::1],
    rows: cython.longlong[:, ::1],
    children: cython.longlong[:, ::1],
    body_sizes: cython.longlong[::1],
    row_starts: cython.longlong[::1],
    output: cython.uchar[::1],
) -> None:
    """Write each row at its start in `output`; bytes fields are ranges of `data`."""
    row: cython.Py_ssize_t
    child: cython.Py_ssize_t
    position: cython.Py_ssize_t
    program_position: cython.Py_ssize_t
    array_program_end: cython.Py_ssize_t
    element_position: cython.Py_ssize_t
    program_size: cython.Py_ssize_t = program.shape[0]
    operation: cython.int
    column: cython.Py_ssize_t
    argument: cython.longlong
    value: cython.longlong
    with cython.nogil:
        for row in range(rows.shape[1]):
            position = row_starts[row]
            program_position = 0
            while program_position < program_size:
                operation = cython.cast(cython.int, program[program_position])
                column = program[program_position + 1]
                argument = program[program_position + 2]
                program_position += 3
                if operation == INT or operation == UINT:
                    position = _put_int(output, position, argument, rows[column, row])
                elif operation == FRAME:
                    position = _put_int(output, position, argument, body_sizes[row])
                elif operation == ZIGZAG_FRAME:
                    position = _put_varint(
                        output, position, _varint_value(operation, 0, body_sizes[row])
                    )
                elif operation == BYTES:
                    value = rows[column + 1, row]
                    position = _put_int(output, position, argument, value)
                    position = _put_bytes(
                        output, position, data, rows[column, row], value if value > 0 else 0
                    )
                elif operation == ZIGZAG_BYTES:
                    value = rows[column + 1, row]
                    position = _put_varint(output, position, _varint_value(operation, 0, value))
                    position = _put_bytes(
                        output, position, data, rows[column, row], value if value > 0 else 0
                    )
                elif operation == ZIGZAG_REPEAT:
                    value = rows[column, row]
                    position = _put_varint(output, position, _varint_value(operation, 0, value))
                    array_program_end = program_position + 3 * cython.cast(
                        cython.Py_ssize_t, argument
                    )
                    child = rows[column + 1, row]
                    while value > 0:
                        for element_position in range(program_position, array_program_end, 3):
                            operation = cython.cast(cython.int, program[element_position])
                            column = program[element_position + 1]
                            argument = children[column + 1, child]
                            position = _put_varint(
                                output, position, _varint_value(operation, 0, argument)
                            )
                            position = _put_bytes(
                                output,
                                position,
                                data,
                                children[column, child],
                                argument if argument > 0 else 0,
                            )
                        child += 1
                        value -= 1
                    program_position = array_program_end
                else:
                    position = _put_varint(
                        output, position, _varint_value(operation, argument, rows[column, row])
                    )
