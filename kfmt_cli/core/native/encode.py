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
    op: cython.int, argument: cython.longlong, value: cython.longlong
) -> cython.ulonglong:
    """The unsigned number that a varint operation writes for a value; lengths have 32 bits."""
    folded: cython.ulonglong
    if op == UVARINT:
        return cython.cast(cython.ulonglong, value)
    # In steps that overflow neither in C nor in NumPy.
    if value >= 0:
        folded = cython.cast(cython.ulonglong, value) * 2
    else:
        folded = cython.cast(cython.ulonglong, -(value + 1)) * 2 + 1
    return folded & (MASK_64 if op == ZIGZAG and argument == 64 else MASK_32)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _varint_size(raw: cython.ulonglong) -> cython.longlong:
    size: cython.longlong = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_varint(
    out: cython.uchar[::1], at: cython.Py_ssize_t, raw: cython.ulonglong
) -> cython.Py_ssize_t:
    while raw >= 0x80:
        out[at] = cython.cast(cython.uchar, (raw & 0x7F) | 0x80)
        raw >>= 7
        at += 1
    out[at] = cython.cast(cython.uchar, raw)
    return at + 1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_int(
    out: cython.uchar[::1], at: cython.Py_ssize_t, size: cython.longlong, value: cython.longlong
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t = at + cython.cast(cython.Py_ssize_t, size)
    end: cython.Py_ssize_t = i
    while i > at:
        i -= 1
        out[i] = cython.cast(cython.uchar, value & 0xFF)
        value >>= 8
    return end


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_bytes(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    start: cython.longlong,
    size: cython.longlong,
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, size)
    first: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, start)
    if n <= 0:
        return at
    # The bounds of the first and the last byte are checked here, and so are all others.
    out[at] = data[first]
    out[at + n - 1] = data[first + n - 1]
    if cython.compiled:
        memcpy(cython.address(out[at]), cython.address(data[first]), n)
    else:
        for i in range(n):
            out[at + i] = data[first + i]
    return at + n


def gather_bytes(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> None:
    """Copy byte ranges of `data` to `out`, one after another.

    starts: where each begins in `data`. ends: where each ends in `out`.
    """
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = _put_bytes(out, at, data, starts[i], ends[i] - at)


def measure_rows(
    program: cython.const[cython.longlong][::1],
    rows: cython.longlong[:, ::1],
    children: cython.longlong[:, ::1],
    body_sizes: cython.longlong[::1],
    sizes: cython.longlong[::1],
) -> None:
    """Compute the sizes of rows in bytes.

    sizes: output, the entire rows. body_sizes: output, the part of each row that follows its frame
    size; the entire row without one.
    """
    row: cython.Py_ssize_t
    child: cython.Py_ssize_t
    pc: cython.Py_ssize_t
    repeat_end: cython.Py_ssize_t
    inner: cython.Py_ssize_t
    n_program: cython.Py_ssize_t = program.shape[0]
    op: cython.int
    column: cython.Py_ssize_t
    argument: cython.longlong
    value: cython.longlong
    size: cython.longlong
    prefix_size: cython.longlong
    frame: cython.int
    frame_argument: cython.longlong
    with cython.nogil:
        for row in range(rows.shape[1]):
            size = 0
            prefix_size = 0  # bytes before the frame size
            frame = 0
            frame_argument = 0
            pc = 0
            while pc < n_program:
                op = cython.cast(cython.int, program[pc])
                column = program[pc + 1]
                argument = program[pc + 2]
                pc += 3
                if op == FRAME or op == ZIGZAG_FRAME:
                    prefix_size = size
                    size = 0
                    frame = op
                    frame_argument = argument
                elif op == INT or op == UINT:
                    size += argument
                elif op == BYTES:
                    value = rows[column + 1, row]
                    size += argument + (value if value > 0 else 0)
                elif op == ZIGZAG_BYTES:
                    value = rows[column + 1, row]
                    size += _varint_size(_varint_value(op, 0, value)) + (value if value > 0 else 0)
                elif op == ZIGZAG_REPEAT:
                    value = rows[column, row]
                    size += _varint_size(_varint_value(op, 0, value))
                    repeat_end = pc + 3 * cython.cast(cython.Py_ssize_t, argument)
                    child = rows[column + 1, row]
                    while value > 0:
                        for inner in range(pc, repeat_end, 3):
                            op = cython.cast(cython.int, program[inner])
                            column = program[inner + 1]
                            argument = children[column + 1, child]
                            size += _varint_size(_varint_value(op, 0, argument))
                            size += argument if argument > 0 else 0
                        child += 1
                        value -= 1
                    pc = repeat_end
                else:
                    size += _varint_size(_varint_value(op, argument, rows[column, row]))
            body_sizes[row] = size
            if frame == ZIGZAG_FRAME:
                size += _varint_size(_varint_value(frame, 0, size))
            elif frame == FRAME:
                size += frame_argument
            sizes[row] = prefix_size + size


def encode(
    data: cython.const[cython.uchar][::1],
    program: cython.const[cython.longlong][::1],
    rows: cython.longlong[:, ::1],
    children: cython.longlong[:, ::1],
    body_sizes: cython.longlong[::1],
    starts: cython.longlong[::1],
    out: cython.uchar[::1],
) -> None:
    """Write each row at its start in `out`; bytes fields are ranges of `data`."""
    row: cython.Py_ssize_t
    child: cython.Py_ssize_t
    at: cython.Py_ssize_t
    pc: cython.Py_ssize_t
    repeat_end: cython.Py_ssize_t
    inner: cython.Py_ssize_t
    n_program: cython.Py_ssize_t = program.shape[0]
    op: cython.int
    column: cython.Py_ssize_t
    argument: cython.longlong
    value: cython.longlong
    with cython.nogil:
        for row in range(rows.shape[1]):
            at = starts[row]
            pc = 0
            while pc < n_program:
                op = cython.cast(cython.int, program[pc])
                column = program[pc + 1]
                argument = program[pc + 2]
                pc += 3
                if op == INT or op == UINT:
                    at = _put_int(out, at, argument, rows[column, row])
                elif op == FRAME:
                    at = _put_int(out, at, argument, body_sizes[row])
                elif op == ZIGZAG_FRAME:
                    at = _put_varint(out, at, _varint_value(op, 0, body_sizes[row]))
                elif op == BYTES:
                    value = rows[column + 1, row]
                    at = _put_int(out, at, argument, value)
                    at = _put_bytes(out, at, data, rows[column, row], value if value > 0 else 0)
                elif op == ZIGZAG_BYTES:
                    value = rows[column + 1, row]
                    at = _put_varint(out, at, _varint_value(op, 0, value))
                    at = _put_bytes(out, at, data, rows[column, row], value if value > 0 else 0)
                elif op == ZIGZAG_REPEAT:
                    value = rows[column, row]
                    at = _put_varint(out, at, _varint_value(op, 0, value))
                    repeat_end = pc + 3 * cython.cast(cython.Py_ssize_t, argument)
                    child = rows[column + 1, row]
                    while value > 0:
                        for inner in range(pc, repeat_end, 3):
                            op = cython.cast(cython.int, program[inner])
                            column = program[inner + 1]
                            argument = children[column + 1, child]
                            at = _put_varint(out, at, _varint_value(op, 0, argument))
                            at = _put_bytes(
                                out,
                                at,
                                data,
                                children[column, child],
                                argument if argument > 0 else 0,
                            )
                        child += 1
                        value -= 1
                    pc = repeat_end
                else:
                    at = _put_varint(out, at, _varint_value(op, argument, rows[column, row]))
