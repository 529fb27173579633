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
def put_byte(w: Writer, byte: cython.int) -> cython.int:
    w.out[w.at] = cython.cast(cython.uchar, byte)
    w.at += 1
    w.width += 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def copy_bytes(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
) -> cython.int:
    """Copy n bytes in one call, after checking the first and the last byte of source and target."""
    i: cython.Py_ssize_t
    if n <= 0:
        return 0
    w.out[w.at] = data[start]
    w.out[w.at + n - 1] = data[start + n - 1]
    if cython.compiled:
        memcpy(cython.address(w.out[w.at]), cython.address(data[start]), n)
    else:
        for i in range(n):
            w.out[w.at + i] = data[start + i]
    w.at += n
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_literal(w: Writer, index: cython.Py_ssize_t) -> cython.int:
    start: cython.Py_ssize_t = w.places[0, index]
    n: cython.Py_ssize_t = w.places[1, index]
    w.width += w.places[2, index]
    if (
        cython.compiled
        and n <= 32
        and start + 32 <= w.literals.shape[0]
        and w.at + 32 <= w.out.shape[0]
    ):
        # A copy of a size known to the compiler takes a few instructions; the bytes after the
        # literal will be overwritten.
        memcpy(cython.address(w.out[w.at]), cython.address(w.literals[start]), 32)
        w.at += n
        return 0
    return copy_bytes(w, w.literals, start, n)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_number(w: Writer, value: cython.longlong, grouped: cython.bint) -> cython.int:
    remaining: cython.ulonglong
    power_of_ten: cython.ulonglong = 10
    digits: cython.int = 1
    i: cython.int
    at: cython.Py_ssize_t
    if not cython.compiled:
        value = int(value)  # unlike a Python integer, a NumPy integer overflows
    if value < 0:
        put_byte(w, 45)
        remaining = cython.cast(cython.ulonglong, -(value + 1)) + 1
    else:
        remaining = cython.cast(cython.ulonglong, value)
    while digits < 19 and remaining >= power_of_ten:  # no int64 has more than 19 digits
        power_of_ten *= 10
        digits += 1
    at = w.at + digits
    if grouped:
        at += (digits - 1) // 3
    w.width += at - w.at
    w.at = at
    if grouped:
        for i in range(digits):
            if i > 0 and i % 3 == 0:
                at -= 1
                w.out[at] = 32
            at -= 1
            w.out[at] = cython.cast(cython.uchar, 48 + remaining % 10)
            remaining //= 10
        return 0
    w.out[at - digits] = 48
    w.out[at - 1] = 48  # checks the bounds of both ends
    if cython.compiled:
        _put_digits_before(cython.address(w.out[at - 1]) + 1, remaining, digits)
    else:
        w.out[at - digits : at] = b"%d" % remaining
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_digits_before(
    end: cython.p_uchar, remaining: cython.ulonglong, digits: cython.int
) -> cython.void:
    """Write the last `digits` digits before a position; the caller has checked the bounds."""
    pair: cython.uint
    while digits >= 2:
        pair = cython.cast(cython.uint, remaining % 100)
        remaining //= 100
        end -= 2
        end[0] = cython.cast(cython.uchar, 48 + pair // 10)
        end[1] = cython.cast(cython.uchar, 48 + pair % 10)
        digits -= 2
    if digits:
        end -= 1
        end[0] = cython.cast(cython.uchar, 48 + remaining)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_digits(w: Writer, value: cython.longlong, n: cython.int) -> cython.int:
    i: cython.int
    w.at += n
    w.width += n
    for i in range(n):
        w.out[w.at - 1 - i] = cython.cast(cython.uchar, 48 + value % 10)
        value //= 10
    return 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def put_hex_digit(w: Writer, nibble: cython.int) -> cython.int:
    return put_byte(w, 48 + nibble if nibble < 10 else 87 + nibble)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_time(w: Writer, ms: cython.longlong) -> cython.int:
    """Write YYYY-MM-DD hh:mm:ss.mmm for the years 0000 to 9999, else the number and its unit."""
    if ms < FIRST_MS or ms > LAST_MS:
        put_number(w, ms, False)
        put_byte(w, 32)
        put_byte(w, 109)
        put_byte(w, 115)
        return 0
    # Days and time of day since 0000-03-01, so that leap days are at the end of a year.
    ms += MARCH_0_MS
    if ms < 0:  # January and February of the year 0: one era earlier
        ms += ERA_MS
        put_date(w, ms // 86400000, -400)
    else:
        put_date(w, ms // 86400000, 0)
    ms %= 86400000
    put_byte(w, 32)
    put_digits(w, ms // 3600000, 2)
    put_byte(w, 58)
    put_digits(w, ms // 60000 % 60, 2)
    put_byte(w, 58)
    put_digits(w, ms // 1000 % 60, 2)
    put_byte(w, 46)
    put_digits(w, ms % 1000, 3)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_date(w: Writer, days: cython.longlong, first_year: cython.longlong) -> cython.int:
    """Write the date of a day counted from 0000-03-01; first_year is added to the year.

    Computed in eras of 400 years, which all have the same number of days.
    """
    era: cython.longlong = days // 146097
    day: cython.longlong = days % 146097
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
    put_digits(w, year, 4)
    put_byte(w, 45)
    put_digits(w, month + 1, 2)
    put_byte(w, 45)
    put_digits(w, day + 1, 2)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_hex(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t
    for i in range(at, end):
        put_hex_digit(w, data[i] >> 4)
        put_hex_digit(w, data[i] & 15)
    return 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _put_sextet(w: Writer, bits: cython.int) -> cython.int:
    if bits < 26:
        return put_byte(w, 65 + bits)
    if bits < 52:
        return put_byte(w, 71 + bits)
    if bits < 62:
        return put_byte(w, bits - 4)
    return put_byte(w, 43 if bits == 62 else 47)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_base64(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.int:
    while end - at >= 3:
        _put_sextet(w, data[at] >> 2)
        _put_sextet(w, ((data[at] & 3) << 4) | (data[at + 1] >> 4))
        _put_sextet(w, ((data[at + 1] & 15) << 2) | (data[at + 2] >> 6))
        _put_sextet(w, data[at + 2] & 63)
        at += 3
    if end - at == 2:
        _put_sextet(w, data[at] >> 2)
        _put_sextet(w, ((data[at] & 3) << 4) | (data[at + 1] >> 4))
        _put_sextet(w, (data[at + 1] & 15) << 2)
        put_byte(w, 61)
    elif end - at == 1:
        _put_sextet(w, data[at] >> 2)
        _put_sextet(w, (data[at] & 3) << 4)
        put_byte(w, 61)
        put_byte(w, 61)
    return 0
