"""The maximum output size of a row, so that no row is begun that may not fit.

Ordinary Python that Cython also compiles.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

COMPILED: bool = bool(cython.compiled)

EXPANSION = cython.declare(cython.int, 6)  # the maximum of bytes that a byte is written as (\u00xx)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _max_field_bytes(
    data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, length: cython.longlong
) -> cython.longlong:
    """Upper bound of the output of a bytes field; tighter for long ones, whose bytes are read."""
    i: cython.Py_ssize_t
    n_bytes: cython.longlong
    if length <= 0:
        return 0
    if length < 4096:
        return length * EXPANSION
    n_bytes = 3 * length  # at most: replacement characters, hex, base64
    for i in range(start, start + length):
        if data[i] < 32 or data[i] == 0x7F or data[i] == 0xC2:
            n_bytes += EXPANSION - 3
        elif data[i] >= 0x80:
            n_bytes += 1  # \xhh in a cell of a table
    return n_bytes


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def max_row_bytes(
    data: cython.const[cython.uchar][::1],
    shape: cython.const[cython.longlong][::1],
    columns: cython.const[cython.longlong][:, ::1],
    row: cython.Py_ssize_t,
    children: cython.const[cython.longlong][:, ::1],
) -> cython.longlong:
    """Upper bound of the output of a row in bytes. shape: as in `emit.emit`."""
    n_bytes: cython.longlong = shape[0]
    shape_index: cython.Py_ssize_t
    child: cython.Py_ssize_t
    n_bytes_fields: cython.Py_ssize_t = shape[3]
    first_child: cython.longlong
    for shape_index in range(4, 4 + n_bytes_fields):
        n_bytes += _max_field_bytes(
            data, columns[shape[shape_index], row], columns[shape[shape_index] + 1, row]
        )
    if shape[2] >= 0:
        first_child = columns[shape[2] + 1, row]
        for child in range(columns[shape[2], row]):
            n_bytes += shape[1]
            for shape_index in range(4 + n_bytes_fields, shape.shape[0]):
                n_bytes += _max_field_bytes(
                    data,
                    children[shape[shape_index], first_child + child],
                    children[shape[shape_index] + 1, first_child + child],
                )
    return n_bytes


def row_bytes_bound(
    data: cython.const[cython.uchar][::1],
    shape: cython.const[cython.longlong][::1],
    columns: cython.const[cython.longlong][:, ::1],
    row: cython.Py_ssize_t,
    children: cython.const[cython.longlong][:, ::1],
):
    """`max_row_bytes` for Python callers."""
    return max_row_bytes(data, shape, columns, row, children)
