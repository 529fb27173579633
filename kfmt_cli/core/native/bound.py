"""How much room a row may take in the output, so that none is begun that does not fit.

Ordinary Python that Cython also compiles.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

COMPILED: bool = bool(cython.compiled)

EXPANSION = cython.declare(cython.int, 6)  # the most bytes that one byte becomes (\u00xx)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _room(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, length: cython.longlong
) -> cython.longlong:
    """Upper bound of what a bytes field becomes; long ones are looked at."""
    i: cython.Py_ssize_t
    room: cython.longlong
    if length <= 0:
        return 0
    if length < 4096:
        return length * EXPANSION
    room = 3 * length  # the most that replacement characters, hex and base64 take
    for i in range(at, at + length):
        if data[i] < 32 or data[i] == 0x7F or data[i] == 0xC2:
            room += EXPANSION - 3
        elif data[i] >= 0x80:
            room += 1  # \xhh in a cell of a table
    return room


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def row_room(
    data: cython.const[cython.uchar][::1],
    shape: cython.const[cython.longlong][::1],
    columns: cython.const[cython.longlong][:, ::1],
    row: cython.Py_ssize_t,
    children: cython.const[cython.longlong][:, ::1],
) -> cython.longlong:
    """Upper bound of what a row becomes; see `emit` for `shape`."""
    room: cython.longlong = shape[0]
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    n: cython.Py_ssize_t = shape[3]
    first: cython.longlong
    for i in range(4, 4 + n):
        room += _room(data, columns[shape[i], row], columns[shape[i] + 1, row])
    if shape[2] >= 0:
        first = columns[shape[2] + 1, row]
        for j in range(columns[shape[2], row]):
            room += shape[1]
            for i in range(4 + n, shape.shape[0]):
                room += _room(
                    data, children[shape[i], first + j], children[shape[i] + 1, first + j]
                )
    return room


def room(
    data: cython.const[cython.uchar][::1],
    shape: cython.const[cython.longlong][::1],
    columns: cython.const[cython.longlong][:, ::1],
    row: cython.Py_ssize_t,
    children: cython.const[cython.longlong][:, ::1],
):
    """Upper bound, in bytes, of what a row becomes."""
    return row_room(data, shape, columns, row, children)
