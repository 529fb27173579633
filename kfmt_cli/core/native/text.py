"""A cursor in an output buffer, and functions that write literals, numbers, times and digits there.

Ordinary Python that Cython also compiles; `text.pxd` lets the other compiled modules call these
functions directly as C functions. Bounds checks stay on; bytes are copied in one call, after the
first and the last byte of source and target have been checked.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

COMPILED: bool = bool(cython.compiled)

# Entries of the literal table that these modules need themselves.
NULL = cython.declare(cython.int, 0)
ELLIPSIS = cython.declare(cython.int, 1)
REPLACEMENT = cython.declare(cython.int, 2)
FIXED_LITERALS = (b"null", "…".encode(), "\ufffd".encode())

LITERAL_PADDING = 32  # zeros after the literals, so that short ones can be copied with a fixed size

FIRST_MS = cython.declare(cython.longlong, -62167219200000)  # 0000-01-01
LAST_MS = cython.declare(cython.longlong, 253402300799999)  # 9999-12-31
MARCH_0_MS = cython.declare(cython.longlong, 62162035200000)  # from 0000-03-01 to 1970
ERA_MS = cython.declare(cython.longlong, 12622780800000)  # 400 years


@cython.final
@cython.cclass
class Writer:
    """A cursor in an output buffer, with the tables of literals and printable characters.

    at: the position of the next byte. width: the display columns written since it was last set to
    0.
    """

    out: cython.uchar[::1]
    literals: cython.const[cython.uchar][::1]
    places: cython.const[cython.longlong][:, ::1]  # start, length, display columns of each literal
    wide: cython.const[cython.longlong][:, ::1]  # printable ranges: first, last, display columns
    at: cython.Py_ssize_t
    width: cython.Py_ssize_t

    def __init__(
        self,
        out: cython.uchar[::1],
        literals: cython.const[cython.uchar][::1],
        places: cython.const[cython.longlong][:, ::1],
        wide: cython.const[cython.longlong][:, ::1],
    ):
        if not cython.compiled:  # compiled code converts typed arguments itself
            out, literals = memoryview(out), memoryview(literals)
        self.out = out
        self.literals = literals
        self.places = places
        self.wide = wide
        self.at = 0
        self.width = 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def put_byte(writer: Writer, byte: cython.int) -> cython.int:
    writer.out[writer.at] = cython.cast(cython.uchar, byte)
    writer.at += 1
    writer.width += 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def copy_bytes(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    n_bytes: cython.Py_ssize_t,
) -> cython.int:
    """Copy n bytes in one call, after checking the first and the last byte of source and target."""
    i: cython.Py_ssize_t
    if n_bytes <= 0:
        return 0
    writer.out[writer.at] = data[start]
    writer.out[writer.at + n_bytes - 1] = data[start + n_bytes - 1]
    if cython.compiled:
        memcpy(cython.address(writer.out[writer.at]), cython.address(data[start]), n_bytes)
    else:
        for i in range(n_bytes):
            writer.out[writer.at + i] = data[start + i]
    writer.at += n_bytes
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_literal(writer: Writer, literal_index: cython.Py_ssize_t) -> cython.int:
    literal_start: cython.Py_ssize_t = writer.places[0, literal_index]
    n_bytes: cython.Py_ssize_t = writer.places[1, literal_index]
    writer.width += writer.places[2, literal_index]
    if (
        cython.compiled
        and n_bytes <= 32
        and literal_start + 32 <= writer.literals.shape[0]
        and writer.at + 32 <= writer.out.shape[0]
    ):
        # A copy of a size known to the compiler takes a few instructions; the bytes after the
        # literal will be overwritten.
        memcpy(
            cython.address(writer.out[writer.at]),
            cython.address(writer.literals[literal_start]),
            32,
        )
        writer.at += n_bytes
        return 0
    return copy_bytes(writer, writer.literals, literal_start, n_bytes)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_number(writer: Writer, value: cython.longlong, is_grouped: cython.bint) -> cython.int:
    remaining_number: cython.ulonglong
    power_of_ten: cython.ulonglong = 10
    n_digits: cython.int = 1
    i: cython.int
    position: cython.Py_ssize_t
    if not cython.compiled:
        value = int(value)  # unlike a Python integer, a NumPy integer overflows
    if value < 0:
        put_byte(writer, 45)
        remaining_number = cython.cast(cython.ulonglong, -(value + 1)) + 1
    else:
        remaining_number = cython.cast(cython.ulonglong, value)
    while n_digits < 19 and remaining_number >= power_of_ten:  # no int64 has more than 19 digits
        power_of_ten *= 10
        n_digits += 1
    position = writer.at + n_digits
    if is_grouped:
        position += (n_digits - 1) // 3
    writer.width += position - writer.at
    writer.at = position
    if is_grouped:
        for i in range(n_digits):
            if i > 0 and i % 3 == 0:
                position -= 1
                writer.out[position] = 32
            position -= 1
            writer.out[position] = cython.cast(cython.uchar, 48 + remaining_number % 10)
            remaining_number //= 10
        return 0
    writer.out[position - n_digits] = 48
    writer.out[position - 1] = 48  # checks the bounds of both ends
    if cython.compiled:
        _put_digits_before(cython.address(writer.out[position - 1]) + 1, remaining_number, n_digits)
    else:
        writer.out[position - n_digits : position] = b"%d" % remaining_number
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_digits_before(
    end: cython.p_uchar, number: cython.ulonglong, n_digits: cython.int
) -> cython.void:
    """Write the last `n_digits` digits before a position; the caller has checked the bounds."""
    digit_pair: cython.uint
    while n_digits >= 2:
        digit_pair = cython.cast(cython.uint, number % 100)
        number //= 100
        end -= 2
        end[0] = cython.cast(cython.uchar, 48 + digit_pair // 10)
        end[1] = cython.cast(cython.uchar, 48 + digit_pair % 10)
        n_digits -= 2
    if n_digits:
        end -= 1
        end[0] = cython.cast(cython.uchar, 48 + number)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_digits(writer: Writer, value: cython.longlong, n_digits: cython.int) -> cython.int:
    i: cython.int
    writer.at += n_digits
    writer.width += n_digits
    for i in range(n_digits):
        writer.out[writer.at - 1 - i] = cython.cast(cython.uchar, 48 + value % 10)
        value //= 10
    return 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def put_hex_digit(writer: Writer, nibble: cython.int) -> cython.int:
    return put_byte(writer, 48 + nibble if nibble < 10 else 87 + nibble)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_time(writer: Writer, time_ms: cython.longlong) -> cython.int:
    """Write YYYY-MM-DD hh:mm:ss.mmm for the years 0000 to 9999, else the number and its unit."""
    if time_ms < FIRST_MS or time_ms > LAST_MS:
        put_number(writer, time_ms, False)
        put_byte(writer, 32)
        put_byte(writer, 109)
        put_byte(writer, 115)
        return 0
    # Days and time of day since 0000-03-01, so that leap days are at the end of a year.
    time_ms += MARCH_0_MS
    if time_ms < 0:  # January and February of the year 0: one era earlier
        time_ms += ERA_MS
        put_date(writer, time_ms // 86400000, -400)
    else:
        put_date(writer, time_ms // 86400000, 0)
    time_ms %= 86400000
    put_byte(writer, 32)
    put_digits(writer, time_ms // 3600000, 2)
    put_byte(writer, 58)
    put_digits(writer, time_ms // 60000 % 60, 2)
    put_byte(writer, 58)
    put_digits(writer, time_ms // 1000 % 60, 2)
    put_byte(writer, 46)
    put_digits(writer, time_ms % 1000, 3)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_date(
    writer: Writer, day_number: cython.longlong, first_year: cython.longlong
) -> cython.int:
    """Write the date of a day counted from 0000-03-01; first_year is added to the year.

    Computed in eras of 400 years, which all have the same number of days.
    """
    era: cython.longlong = day_number // 146097
    day: cython.longlong = day_number % 146097
    year: cython.longlong = (day - day // 1460 + day // 36524 - day // 146096) // 365
    month: cython.longlong
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += era * 400 + first_year
    if month >= 10:
        year += 1
        month -= 10
    else:
        month += 2
    put_digits(writer, year, 4)
    put_byte(writer, 45)
    put_digits(writer, month + 1, 2)
    put_byte(writer, 45)
    put_digits(writer, day + 1, 2)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_hex(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t
    for i in range(start, end):
        put_hex_digit(writer, data[i] >> 4)
        put_hex_digit(writer, data[i] & 15)
    return 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_sextet(writer: Writer, sextet: cython.int) -> cython.int:
    if sextet < 26:
        return put_byte(writer, 65 + sextet)
    if sextet < 52:
        return put_byte(writer, 71 + sextet)
    if sextet < 62:
        return put_byte(writer, sextet - 4)
    return put_byte(writer, 43 if sextet == 62 else 47)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_base64(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.int:
    while end - position >= 3:
        _put_sextet(writer, data[position] >> 2)
        _put_sextet(writer, ((data[position] & 3) << 4) | (data[position + 1] >> 4))
        _put_sextet(writer, ((data[position + 1] & 15) << 2) | (data[position + 2] >> 6))
        _put_sextet(writer, data[position + 2] & 63)
        position += 3
    if end - position == 2:
        _put_sextet(writer, data[position] >> 2)
        _put_sextet(writer, ((data[position] & 3) << 4) | (data[position + 1] >> 4))
        _put_sextet(writer, (data[position + 1] & 15) << 2)
        put_byte(writer, 61)
    elif end - position == 1:
        _put_sextet(writer, data[position] >> 2)
        _put_sextet(writer, (data[position] & 3) << 4)
        put_byte(writer, 61)
        put_byte(writer, 61)
    return 0
