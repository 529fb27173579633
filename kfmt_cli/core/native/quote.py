"""Writes arbitrary bytes as text, in JSON and in CSV.

Text from a file is never written raw: in JSON every control character is escaped (also DEL and the
C1 block), in cells every character that is not printable, and in CSV such text is base64.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

if cython.compiled:
    from cython.cimports.kfmt_cli.core.native.text import (
        Writer,
        copy_bytes,
        put_base64,
        put_byte,
        put_hex,
        put_hex_digit,
        put_literal,
    )
else:
    from kfmt_cli.core.native.text import (
        Writer,
        copy_bytes,
        put_base64,
        put_byte,
        put_hex,
        put_hex_digit,
        put_literal,
    )

COMPILED: bool = bool(cython.compiled)

# How bytes are written.
AUTO = cython.declare(cython.int, 0)
UTF8 = cython.declare(cython.int, 1)
HEX = cython.declare(cython.int, 2)
BASE64 = cython.declare(cython.int, 3)
MODES = {"auto": AUTO, "utf8": UTF8, "hex": HEX, "base64": BASE64}

NULL = cython.declare(cython.int, 0)
REPLACEMENT = cython.declare(cython.int, 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def utf8_length(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.int:
    """The bytes of the UTF-8 character at byte `at` (Unicode 15, table 3-7); 0 if malformed."""
    first: cython.int = data[at]
    n: cython.int
    i: cython.int
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4:
        return 0
    n = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if n > end - at:
        return 0
    for i in range(1, n):
        if data[at + i] & 0xC0 != 0x80:
            return 0
    if (
        (first == 0xE0 and data[at + 1] < 0xA0)
        or (first == 0xED and data[at + 1] > 0x9F)
        or (first == 0xF0 and data[at + 1] < 0x90)
        or (first == 0xF4 and data[at + 1] > 0x8F)
    ):
        return 0
    return n


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def is_utf8(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.int:
    n: cython.int
    while at < end:
        if data[at] < 0x80:
            at += 1
            continue
        n = utf8_length(data, at, end)
        if n == 0:
            return 0
        at += n
    return 1


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_json_text(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    replaces_malformed: cython.bint,
) -> cython.int:
    """Write the content of a JSON string; returns 0 if bytes are not UTF-8 and not replaced."""
    out: cython.uchar[::1] = w.out
    o: cython.Py_ssize_t = w.at
    byte: cython.int
    escape_letter: cython.int
    n: cython.int
    i: cython.int
    while at < end:
        byte = data[at]
        if byte >= 0x20 and byte < 0x7F and byte != 0x22 and byte != 0x5C:
            out[o] = cython.cast(cython.uchar, byte)
            o += 1
            at += 1
            continue
        if byte == 0x22 or byte == 0x5C:
            out[o] = 0x5C
            out[o + 1] = cython.cast(cython.uchar, byte)
            o += 2
            at += 1
            continue
        n = utf8_length(data, at, end)
        if n == 0:
            if not replaces_malformed:
                return 0
            w.at = o
            put_literal(w, REPLACEMENT)
            o = w.at
            at += 1
            continue
        if n == 1 or (n == 2 and byte == 0xC2 and data[at + 1] < 0xA0):
            escape_letter = short_escape_letter(data[at + n - 1])
            if escape_letter:
                out[o] = 0x5C
                out[o + 1] = cython.cast(cython.uchar, escape_letter)
                o += 2
            else:
                w.at = o
                put_escape(w, data, at, n)
                o = w.at
        elif is_bidi_or_line_end(data, at, n):
            w.at = o
            put_escape(w, data, at, n)
            o = w.at
        else:
            for i in range(n):
                out[o + i] = data[at + i]
            o += n
        at += n
    w.at = o
    return 1


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_escape(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    n: cython.int,
) -> cython.int:
    """Write a character of one, two or three bytes as \\uhhhh."""
    i: cython.int
    code: cython.int = data[at] & (0x7F if n == 1 else 0x1F if n == 2 else 0xF)
    for i in range(1, n):
        code = (code << 6) | (data[at + i] & 0x3F)
    put_byte(w, 0x5C)
    put_byte(w, 117)
    for i in range(4):
        put_hex_digit(w, (code >> (12 - 4 * i)) & 15)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def is_bidi_or_line_end(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, n: cython.int
) -> cython.int:
    """Whether the character of n bytes at byte `at` changes the display order of text or ends a
    line (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069)."""
    last: cython.int
    if n == 2:
        return data[at] == 0xD8 and data[at + 1] == 0x9C
    if n != 3 or data[at] != 0xE2:
        return 0
    last = data[at + 2]
    if data[at + 1] == 0x80:
        return last == 0x8E or last == 0x8F or (last >= 0xA8 and last <= 0xAE)
    return data[at + 1] == 0x81 and last >= 0xA6 and last <= 0xA9


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def short_escape_letter(byte: cython.int) -> cython.int:
    """The letter of the escape \\b, \\t, \\n, \\f or \\r of a byte; 0 for other bytes."""
    if byte == 10:
        return 110
    if byte == 13:
        return 114
    if byte == 9:
        return 116
    if byte == 8:
        return 98
    if byte == 12:
        return 102
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_json_bytes(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
    encoding: cython.Py_ssize_t,
) -> cython.int:
    """Write null, a string of text, or one in another encoding and the member that names it.

    encoding: the index of the first of the literals for that member (utf8, hex, base64).
    """
    begin: cython.Py_ssize_t = w.at
    end: cython.Py_ssize_t = at + length
    if length < 0:
        return put_literal(w, NULL)
    put_byte(w, 34)
    if (mode == AUTO or mode == UTF8) and _put_json_text(w, data, at, end, False):
        return put_byte(w, 34)
    w.at = begin + 1
    if mode == HEX:
        put_hex(w, data, at, end)
    elif mode == UTF8:
        _put_json_text(w, data, at, end, True)
    else:
        put_base64(w, data, at, end)
    put_byte(w, 34)
    return put_literal(w, encoding + (0 if mode == UTF8 else 1 if mode == HEX else 2))


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def csv_encoding(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
) -> cython.int:
    """The mode of a CSV field; AUTO (text) is only for UTF-8 that cannot control a terminal."""
    i: cython.Py_ssize_t
    n: cython.int
    if length < 0:
        return AUTO
    if mode == AUTO or mode == UTF8:
        if not is_utf8(data, at, at + length):
            return BASE64
        for i in range(at, at + length):
            if (data[i] < 32 and data[i] != 9 and data[i] != 10 and data[i] != 13) or (
                data[i] == 0x7F or (data[i] == 0xC2 and data[i + 1] < 0xA0)
            ):
                return BASE64
            n = 2 if data[i] == 0xD8 else 3 if data[i] == 0xE2 else 0
            if n and is_bidi_or_line_end(data, i, n):
                return BASE64
        return AUTO
    return mode


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_csv_bytes(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
) -> cython.int:
    """Write a quoted CSV field; null becomes nothing, empty bytes become ""."""
    if length < 0:
        return 0
    begin: cython.Py_ssize_t = w.at
    put_byte(w, 34)
    mode = csv_encoding(data, at, length, mode)
    if mode == HEX:
        put_hex(w, data, at, at + length)
    elif mode == BASE64:
        put_base64(w, data, at, at + length)
    else:
        copy_bytes(w, data, at, length)
        double_quotes(w, begin + 1)
    return put_byte(w, 34)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def double_quotes(w: Writer, begin: cython.Py_ssize_t) -> cython.int:
    """Double each quote in the text written since `begin`."""
    extra: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    for i in range(begin, w.at):
        if w.out[i] == 34:
            extra += 1
    if extra == 0:
        return 0
    i = w.at - 1
    o = i + extra
    w.at += extra
    while o > i:
        w.out[o] = w.out[i]
        if w.out[i] == 34:
            o -= 1
            w.out[o] = 34
        o -= 1
        i -= 1
    return 0
