"""The bulk decoder: runs a Layout's program over entire blocks and writes columns.

This file is ordinary Python that Cython also compiles; `COMPILED` is true in compiled code. It
knows no Kafka format: `Layout.program` defines what to read. Whatever the bytes are, only the
regions are read: each access is checked against its region, and `_check_bounds` first verifies that
regions and columns are inside the arrays. A malformed region gets a status, and decoding continues
with the next one; the slow reader of the same Layout then explains the error (see
`layout/layout.py`). All columns are 64-bit signed integers. A bytes field has two columns, start
and length; the length of null is -1.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

COMPILED: bool = bool(cython.compiled)

# Operations: an instruction is (operation, column, argument). The names are exported as `OPS`.
INT = cython.declare(cython.int, 1)  # argument: bytes, signed big-endian
UINT = cython.declare(cython.int, 2)  # argument: bytes (1, 2 or 4), unsigned big-endian
BYTES = cython.declare(cython.int, 3)  # length in `argument` bytes, signed; negative is null
FRAME = cython.declare(cython.int, 4)  # like BYTES, a length; the rest of the row must fill it
ZIGZAG = cython.declare(
    cython.int, 8
)  # argument: bits, 32 or 64; this and all later ones are varints
UVARINT = cython.declare(cython.int, 9)  # argument: bits
ZIGZAG_BYTES = cython.declare(cython.int, 10)  # argument: 1 if null is allowed
ZIGZAG_FRAME = cython.declare(cython.int, 11)
ZIGZAG_REPEAT = cython.declare(cython.int, 12)  # argument: instructions of an array row

MASK_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
MASK_63 = cython.declare(cython.ulonglong, 0x7FFFFFFFFFFFFFFF)
MASK_64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

# Why decoding of a region stopped.
OK = cython.declare(cython.int, 0)
EXHAUSTED = cython.declare(cython.int, 1)  # the region ends inside a field
VARINT_TOO_LONG = cython.declare(cython.int, 2)
LENGTH_TOO_BIG = cython.declare(cython.int, 3)  # a length that exceeds its region
LENGTH_NEGATIVE = cython.declare(cython.int, 4)  # where null is not allowed
FRAME_NOT_FILLED = cython.declare(cython.int, 5)
COUNT_TOO_BIG = cython.declare(cython.int, 6)
FULL = cython.declare(cython.int, 7)  # no capacity for more rows

# The statistics of a column's values in a region, by index; `STATISTICS` has one entry for each.
STATISTIC_MIN = cython.declare(cython.int, 0)
STATISTIC_MAX = cython.declare(cython.int, 1)
STATISTIC_INCREASES = cython.declare(cython.int, 2)  # 1 if each value exceeds the previous one

OPS = {
    "INT": INT,
    "UINT": UINT,
    "BYTES": BYTES,
    "FRAME": FRAME,
    "ZIGZAG": ZIGZAG,
    "UVARINT": UVARINT,
    "ZIGZAG_BYTES": ZIGZAG_BYTES,
    "ZIGZAG_FRAME": ZIGZAG_FRAME,
    "ZIGZAG_REPEAT": ZIGZAG_REPEAT,
}
STATUSES = {
    "OK": OK,
    "EXHAUSTED": EXHAUSTED,
    "VARINT_TOO_LONG": VARINT_TOO_LONG,
    "LENGTH_TOO_BIG": LENGTH_TOO_BIG,
    "LENGTH_NEGATIVE": LENGTH_NEGATIVE,
    "FRAME_NOT_FILLED": FRAME_NOT_FILLED,
    "COUNT_TOO_BIG": COUNT_TOO_BIG,
    "FULL": FULL,
}
STATISTICS = ("least", "largest", "rises")


@cython.cfunc
def _check_bounds(
    data_size: cython.Py_ssize_t,
    regions: cython.longlong[:, ::1],
    program: cython.const[cython.longlong][::1],
    rows: cython.longlong[:, ::1],
    children: cython.longlong[:, ::1],
    statistic_columns: cython.const[cython.longlong][::1],
    statistics: cython.longlong[:, :, ::1],
):
    """Raise IndexError if `decode`, which checks the rest itself, could leave the arrays."""
    i: cython.Py_ssize_t
    n_regions: cython.Py_ssize_t = regions.shape[1]
    array_instructions_left: cython.Py_ssize_t = 0  # of the array that was last begun
    n_columns: cython.Py_ssize_t
    is_inside: cython.bint = regions.shape[0] == 5 and program.shape[0] % 3 == 0
    is_inside = (
        is_inside and rows.shape[0] > 0 and statistics.shape[0] == statistic_columns.shape[0]
    )
    is_inside = is_inside and (
        statistic_columns.shape[0] == 0
        or (statistics.shape[1] == 3 and statistics.shape[2] == n_regions)
    )
    is_inside = is_inside and (statistic_columns.shape[0] == 0 or rows.shape[1] > 0)
    for i in range(n_regions if is_inside else 0):
        is_inside = is_inside and regions[0, i] >= 0 and regions[1, i] <= data_size
    for i in range(statistic_columns.shape[0]):
        is_inside = is_inside and 0 <= statistic_columns[i] < rows.shape[0]
    for i in range(0, program.shape[0] if is_inside else 0, 3):
        n_columns = children.shape[0] if array_instructions_left > 0 else rows.shape[0]
        if program[i] in (BYTES, ZIGZAG_BYTES, ZIGZAG_REPEAT):  # with two columns
            n_columns -= 1
        is_inside = is_inside and 0 <= program[i + 1] < n_columns
        if program[i] < ZIGZAG:
            is_inside = is_inside and program[i + 2] > 0
        array_instructions_left -= 1
        if program[i] == ZIGZAG_REPEAT:
            array_instructions_left = program[i + 2]
            is_inside = (
                is_inside and 0 <= array_instructions_left <= (program.shape[0] - i) // 3 - 1
            )
    if not is_inside:
        raise IndexError("a region or a column outside its array")


@cython.boundscheck(False)
def decode(
    data: cython.const[cython.uchar][::1],
    regions: cython.longlong[:, ::1],
    program: cython.const[cython.longlong][::1],
    rows: cython.longlong[:, ::1],
    children: cython.longlong[:, ::1],
    statistic_columns: cython.const[cython.longlong][::1],
    statistics: cython.longlong[:, :, ::1],
):
    """Decode rows from each region, up to its end or its first error; returns the number of rows.

    regions: (5, n). Start and end are inputs; the number of rows in this and all earlier regions,
    the status (`STATUSES`) and the end of the last complete row are outputs. rows: (columns,
    capacity), with the row's start in column 0, then the columns of each field. children: the same
    for the elements of an array in a row, without a start. Returns -1 if `rows` or `children` is
    too small; the status of the first region that did not fit, and of all later ones, is then FULL.
    statistic_columns: columns whose statistics are computed; if there are any, rows are not kept:
    each one overwrites the previous one. statistics: (statistic columns, `STATISTICS`, n), not set
    for regions without rows.
    """
    region: cython.Py_ssize_t
    i: cython.Py_ssize_t
    program_position: cython.Py_ssize_t
    program_size: cython.Py_ssize_t = program.shape[0]
    statistic: cython.Py_ssize_t
    n_statistics: cython.Py_ssize_t = statistic_columns.shape[0]
    n_rows: cython.Py_ssize_t = 0
    region_first_row: cython.Py_ssize_t
    row: cython.Py_ssize_t = 0
    child: cython.Py_ssize_t = 0
    row_capacity: cython.Py_ssize_t = rows.shape[1]
    child_capacity: cython.Py_ssize_t = children.shape[1]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    row_end: cython.Py_ssize_t
    has_frame: cython.bint
    operation: cython.int
    column: cython.Py_ssize_t
    argument: cython.longlong
    value: cython.longlong
    unsigned: cython.ulonglong
    byte: cython.ulonglong
    shift: cython.int
    last_shift: cython.int
    status: cython.int
    is_full: cython.bint = False
    elements_left: cython.longlong
    element_program_start: cython.Py_ssize_t
    program_end: cython.Py_ssize_t
    row_first_child: cython.Py_ssize_t
    _check_bounds(len(data), regions, program, rows, children, statistic_columns, statistics)
    with cython.nogil:
        for region in range(regions.shape[1]):
            position = regions[0, region]
            end = regions[1, region]
            status = FULL if is_full else OK
            region_first_row = n_rows
            while position < end and not is_full:
                if row >= row_capacity:
                    is_full = True
                    status = FULL
                    break
                rows[0, row] = position
                row_first_child = child
                row_end = end
                has_frame = False
                elements_left = 0
                element_program_start = 0
                program_end = program_size
                program_position = 0
                while True:
                    if program_position >= program_end:
                        if elements_left > 0:  # the next row of the array
                            elements_left -= 1
                            child += 1
                            if elements_left > 0:
                                program_position = element_program_start
                                if child >= child_capacity:
                                    status = FULL
                                    break
                                continue
                            program_end = program_size
                        if program_position >= program_size:
                            break
                    operation = cython.cast(cython.int, program[program_position])
                    column = program[program_position + 1]
                    argument = program[program_position + 2]
                    program_position += 3
                    if operation >= ZIGZAG:
                        if position >= row_end:
                            status = EXHAUSTED
                            break
                        unsigned = data[position]
                        position += 1
                        if unsigned >= 0x80:  # most varints of a record are one byte
                            unsigned &= 0x7F
                            shift = 7
                            last_shift = 63 if argument == 64 else 28
                            while True:
                                if position >= row_end:
                                    status = EXHAUSTED
                                    break
                                byte = data[position]
                                position += 1
                                unsigned |= (byte & 0x7F) << shift
                                if byte < 0x80:
                                    break
                                shift += 7
                                if shift > last_shift:
                                    status = VARINT_TOO_LONG
                                    break
                            if status != OK:
                                break
                            unsigned &= MASK_64 if argument == 64 else MASK_32
                        value = cython.cast(cython.longlong, unsigned >> 1)
                        if operation == UVARINT:
                            value = cython.cast(cython.longlong, unsigned & MASK_63)
                        elif unsigned & 1:
                            value = -value - 1
                    elif operation == INT or operation == BYTES or operation == FRAME:
                        if argument > row_end - position:
                            status = EXHAUSTED
                            break
                        value = data[position]
                        if value >= 128:
                            value -= 256
                        for i in range(
                            position + 1, position + cython.cast(cython.Py_ssize_t, argument)
                        ):
                            value = value * 256 + data[i]
                        position += argument
                    else:
                        if argument > row_end - position:
                            status = EXHAUSTED
                            break
                        value = 0
                        for i in range(
                            position, position + cython.cast(cython.Py_ssize_t, argument)
                        ):
                            value = value * 256 + data[i]
                        position += argument
                    if operation == BYTES or operation == ZIGZAG_BYTES:
                        if value < 0:
                            if operation == ZIGZAG_BYTES and argument == 0:
                                status = LENGTH_NEGATIVE
                                break
                            value = -1
                        elif value > row_end - position:
                            status = LENGTH_TOO_BIG
                            break
                        if elements_left > 0:
                            children[column, child] = position
                            children[column + 1, child] = value
                        else:
                            rows[column, row] = position
                            rows[column + 1, row] = value
                        if value > 0:
                            position += value
                        continue
                    if operation == FRAME or operation == ZIGZAG_FRAME:
                        if value < 0:
                            status = LENGTH_NEGATIVE
                            break
                        if value > row_end - position:
                            status = LENGTH_TOO_BIG
                            break
                        row_end = position + value
                        has_frame = True
                    elif operation == ZIGZAG_REPEAT:
                        rows[column + 1, row] = child
                        if value < 0:
                            status = LENGTH_NEGATIVE
                            break
                        if value > row_end - position:
                            status = COUNT_TOO_BIG
                            break
                        rows[column, row] = value
                        if value > 0:
                            if child >= child_capacity:
                                status = FULL
                                break
                            elements_left = value
                            element_program_start = program_position
                            program_end = program_position + 3 * argument
                        else:
                            program_position += 3 * argument
                        continue
                    if elements_left > 0:
                        children[column, child] = value
                    else:
                        rows[column, row] = value
                if status == OK and has_frame and position != row_end:
                    status = FRAME_NOT_FILLED
                if status == FULL:
                    is_full = True
                if status != OK:
                    child = row_first_child
                    position = rows[0, row]
                    break
                for statistic in range(n_statistics):
                    value = rows[statistic_columns[statistic], row]
                    if n_rows == region_first_row:
                        statistics[statistic, STATISTIC_MIN, region] = value
                        statistics[statistic, STATISTIC_MAX, region] = value
                        statistics[statistic, STATISTIC_INCREASES, region] = 1
                    elif value > statistics[statistic, STATISTIC_MAX, region]:
                        statistics[statistic, STATISTIC_MAX, region] = value
                    else:
                        statistics[statistic, STATISTIC_INCREASES, region] = 0
                        statistics[statistic, STATISTIC_MIN, region] = min(
                            statistics[statistic, STATISTIC_MIN, region], value
                        )
                n_rows += 1
                if n_statistics > 0:
                    child = row_first_child
                else:
                    row = n_rows
            regions[2, region] = n_rows
            regions[3, region] = status
            regions[4, region] = position
    return -1 if is_full else n_rows


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=True)
def wrapping_add(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """The sum, which wraps around at 64 bits as in Java."""
    if not cython.compiled:
        return (int(a) + int(b) + MASK_63 + 1 & MASK_64) - MASK_63 - 1
    return cython.cast(
        cython.longlong, cython.cast(cython.ulonglong, a) + cython.cast(cython.ulonglong, b)
    )


def expand(
    parents: cython.const[cython.longlong][:, ::1],
    ends: cython.const[cython.longlong][::1],
    program: cython.const[cython.longlong][:, ::1],
    rows: cython.longlong[:, ::1],
):
    """Fill columns of the rows that belong to each parent, such as the records of each batch.

    ends: the end (exclusive) of each parent's rows. An instruction is (target column, parent
    column, row column or -1, parent column or -1). The target is the first parent column, plus the
    row column, if there is one and if the second parent column is missing or not 0.
    """
    parent: cython.Py_ssize_t
    instruction: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first_row: cython.Py_ssize_t = 0
    end_row: cython.Py_ssize_t
    target_column: cython.Py_ssize_t
    row_column: cython.Py_ssize_t
    parent_value: cython.longlong
    with cython.nogil:
        for parent in range(ends.shape[0]):
            end_row = ends[parent]
            for instruction in range(program.shape[0]):
                target_column = program[instruction, 0]
                parent_value = parents[program[instruction, 1], parent]
                row_column = program[instruction, 2]
                if row_column >= 0 and (
                    program[instruction, 3] < 0 or parents[program[instruction, 3], parent] != 0
                ):
                    for row in range(first_row, end_row):
                        rows[target_column, row] = wrapping_add(parent_value, rows[row_column, row])
                else:
                    for row in range(first_row, end_row):
                        rows[target_column, row] = parent_value
            first_row = end_row
