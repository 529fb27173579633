"""Cells of a table: previews of bytes that are safe for terminals, padded or truncated.

Ordinary Python that Cython also compiles. Characters that are not printable according to the
writer's table are escaped.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

if cython.compiled:
    from cython.cimports.kfmt_cli.core.native.quote import short_escape_letter, utf8_length
    from cython.cimports.kfmt_cli.core.native.text import (
        Writer,
        put_base64,
        put_byte,
        put_hex_digit,
        put_literal,
        put_number,
    )
else:
    from kfmt_cli.core.native.quote import short_escape_letter, utf8_length
    from kfmt_cli.core.native.text import (
        Writer,
        put_base64,
        put_byte,
        put_hex_digit,
        put_literal,
        put_number,
    )

COMPILED: bool = bool(cython.compiled)

HEX = cython.declare(cython.int, 2)  # modes of `quote.MODES`
BASE64 = cython.declare(cython.int, 3)
BARE_FLAG = cython.declare(cython.int, 8)  # added to a mode
NULL = cython.declare(cython.int, 0)  # entries of the literal table
ELLIPSIS = cython.declare(cython.int, 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _display_width(w: Writer, code: cython.longlong) -> cython.int:
    """The display columns of a character beyond ASCII; -2 if it is not printable."""
    i: cython.Py_ssize_t
    for i in range(w.wide.shape[1]):
        if code <= w.wide[1, i]:
            return cython.cast(cython.int, w.wide[2, i]) if code >= w.wide[0, i] else -2
    return -2


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_escape(w: Writer, code: cython.longlong, n: cython.int) -> cython.int:
    """Write a byte as \\n, \\t, … or \\xhh, or a character of n bytes as \\u{…}."""
    escape_letter: cython.int = (
        short_escape_letter(cython.cast(cython.int, code)) if code < 32 else 0
    )
    shift: cython.int
    put_byte(w, 92)
    if escape_letter:
        return put_byte(w, escape_letter)
    if n < 2:
        put_byte(w, 120)
        put_hex_digit(w, cython.cast(cython.int, code >> 4))
        return put_hex_digit(w, cython.cast(cython.int, code & 15))
    put_byte(w, 117)
    put_byte(w, 123)
    shift = 20
    while shift > 0 and (code >> shift) == 0:
        shift -= 4
    while shift >= 0:
        put_hex_digit(w, cython.cast(cython.int, (code >> shift) & 15))
        shift -= 4
    return put_byte(w, 125)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_cell_bytes(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
    limit: cython.Py_ssize_t,
) -> cython.int:
    """Write a preview of bytes; a negative length is null.

    With BARE_FLAG, quotes are written only around text that could be misread without them; else
    the template writes them. limit: the maximum of display columns, 0 for no limit.
    """
    if mode < BARE_FLAG:
        return _put_preview(w, data, at, length, mode, limit, True)
    mode -= BARE_FLAG
    if mode >= HEX or not _needs_quotes(data, at, length):
        return _put_preview(w, data, at, length, mode, limit, False)
    put_byte(w, 34)
    _put_preview(w, data, at, length, mode, limit - 2 if limit > 2 else limit, True)
    return put_byte(w, 34)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _needs_quotes(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, length: cython.longlong
) -> cython.bint:
    """Whether text without quotes could be read as null, as nothing, or as quoted text."""
    if length < 1:
        return length == 0
    if data[at] == 34:
        return True
    return (
        length >= 4
        and data[at] == 110
        and data[at + 1] == 117
        and data[at + 2] == 108
        and data[at + 3] == 108
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_printable(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    quoted: cython.bint,
) -> cython.Py_ssize_t:
    """Copy the bytes in [at, end) up to the first that needs an escape; returns its position."""
    out: cython.uchar[::1] = w.out
    o: cython.Py_ssize_t = w.at
    i: cython.Py_ssize_t = at
    byte: cython.int
    while i < end:
        byte = data[i]
        if byte < 32 or byte > 126 or byte == 92 or (quoted and byte == 34):
            break
        out[o] = cython.cast(cython.uchar, byte)
        o += 1
        i += 1
    w.width += i - at
    w.at = o
    return i


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_preview(
    w: Writer,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
    limit: cython.Py_ssize_t,
    quoted: cython.bint,
) -> cython.int:
    """Write printable text unchanged and all else escaped; or bytes in HEX mode, and in BASE64 mode
    with a limit, in hexadecimal.

    A preview wider than `limit` (0: no limit) is truncated; "…" and the size in bytes follow.
    quoted: whether quotes are also escaped.
    """
    start_width: cython.Py_ssize_t = w.width
    end: cython.Py_ssize_t = at + length
    n: cython.int
    i: cython.int
    char_width: cython.int
    code: cython.longlong
    suffix_width: cython.Py_ssize_t = 2  # "…" and the digits of the size
    cut_at: cython.Py_ssize_t = -1
    cut_width: cython.Py_ssize_t = start_width
    stop: cython.Py_ssize_t
    size: cython.longlong = length
    if length < 0:
        return put_literal(w, NULL)
    if limit == 0 and mode == BASE64:
        return put_base64(w, data, at, end)
    while size >= 10:
        size //= 10
        suffix_width += 1
    while at < end:
        if mode != HEX and mode != BASE64:
            # Copy plain characters in one go, up to the first position where it may be truncated.
            stop = end
            if limit > 0 and start_width + limit - suffix_width - w.width < end - at:
                stop = at + start_width + limit - suffix_width - w.width
            at = _put_printable(w, data, at, stop, quoted)
            if at == end:
                break
        if limit > 0 and w.width - start_width <= limit - suffix_width:
            cut_at = w.at
            cut_width = w.width
        if mode == HEX or mode == BASE64:
            put_hex_digit(w, data[at] >> 4)
            put_hex_digit(w, data[at] & 15)
            at += 1
        else:
            n = utf8_length(data, at, end)
            code = data[at]
            if n > 1:
                code = code & (0x7F >> n)
                for i in range(1, n):
                    code = (code << 6) | (data[at + i] & 0x3F)
                char_width = _display_width(w, code)
            else:
                char_width = 1 if n == 1 and code >= 32 and code < 127 else -2
            if n == 1 and (code == 92 or (quoted and code == 34)):
                put_byte(w, 92)
                put_byte(w, cython.cast(cython.int, code))
            elif char_width < 0:
                _put_escape(w, code, n)
            else:
                for i in range(n):
                    put_byte(w, data[at + i])
                w.width += char_width - n
            at += n if n > 0 else 1
        if limit > 0 and w.width - start_width > limit:
            w.at = cut_at if cut_at >= 0 else w.at
            w.width = cut_width if cut_at >= 0 else w.width
            put_literal(w, ELLIPSIS)
            return put_number(w, length, False)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def end_cell(
    w: Writer,
    begin: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    alignment: cython.int,
    is_cut: cython.bint,
) -> cython.int:
    """Pad the text written since `begin` to a width; if `is_cut`, truncate wider text.

    alignment: 0 aligns left, 1 aligns right, 2 does not pad.
    """
    i: cython.Py_ssize_t
    pad: cython.Py_ssize_t = width - w.width
    if pad < 0 and is_cut:
        i = begin
        w.width = 0
        while i < w.at and w.width < width - 1:  # truncated cells have narrow characters only
            i += 1
            while i < w.at and w.out[i] & 0xC0 == 0x80:
                i += 1
            w.width += 1
        w.at = i
        return put_literal(w, ELLIPSIS)
    if pad <= 0 or alignment == 2:
        return 0
    if alignment == 1:
        i = w.at - 1
        while i >= begin:
            w.out[i + pad] = w.out[i]
            i -= 1
        for i in range(begin, begin + pad):
            w.out[i] = 32
        w.at += pad
    else:
        for i in range(pad):
            put_byte(w, 32)
    return 0
