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
def _display_width(writer: Writer, code_point: cython.longlong) -> cython.int:
    """The display columns of a character beyond ASCII; -2 if it is not printable."""
    i: cython.Py_ssize_t
    for i in range(writer.wide.shape[1]):
        if code_point <= writer.wide[1, i]:
            return (
                cython.cast(cython.int, writer.wide[2, i])
                if code_point >= writer.wide[0, i]
                else -2
            )
    return -2


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_escape(writer: Writer, code_point: cython.longlong, n_bytes: cython.int) -> cython.int:
    """Write a byte as \\n, \\t, … or \\xhh, or a character of n bytes as \\u{…}."""
    escape_letter: cython.int = (
        short_escape_letter(cython.cast(cython.int, code_point)) if code_point < 32 else 0
    )
    shift: cython.int
    put_byte(writer, 92)
    if escape_letter:
        return put_byte(writer, escape_letter)
    if n_bytes < 2:
        put_byte(writer, 120)
        put_hex_digit(writer, cython.cast(cython.int, code_point >> 4))
        return put_hex_digit(writer, cython.cast(cython.int, code_point & 15))
    put_byte(writer, 117)
    put_byte(writer, 123)
    shift = 20
    while shift > 0 and (code_point >> shift) == 0:
        shift -= 4
    while shift >= 0:
        put_hex_digit(writer, cython.cast(cython.int, (code_point >> shift) & 15))
        shift -= 4
    return put_byte(writer, 125)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_cell_bytes(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
    max_width: cython.Py_ssize_t,
) -> cython.int:
    """Write a preview of bytes; a negative length is null.

    With BARE_FLAG, quotes are written only around text that could be misread without them; else
    the template writes them. max_width: the maximum of display columns, 0 for no limit.
    """
    if mode < BARE_FLAG:
        return _put_preview(writer, data, start, length, mode, max_width, True)
    mode -= BARE_FLAG
    if mode >= HEX or not _needs_quotes(data, start, length):
        return _put_preview(writer, data, start, length, mode, max_width, False)
    put_byte(writer, 34)
    _put_preview(
        writer, data, start, length, mode, max_width - 2 if max_width > 2 else max_width, True
    )
    return put_byte(writer, 34)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _needs_quotes(
    data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, length: cython.longlong
) -> cython.bint:
    """Whether text without quotes could be read as null, as nothing, or as quoted text."""
    if length < 1:
        return length == 0
    if data[start] == 34:
        return True
    return (
        length >= 4
        and data[start] == 110
        and data[start + 1] == 117
        and data[start + 2] == 108
        and data[start + 3] == 108
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_printable(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    needs_quote_escapes: cython.bint,
) -> cython.Py_ssize_t:
    """Copy the bytes in [at, end) up to the first that needs an escape; returns its position."""
    output: cython.uchar[::1] = writer.out
    output_position: cython.Py_ssize_t = writer.at
    position: cython.Py_ssize_t = start
    byte: cython.int
    while position < end:
        byte = data[position]
        if byte < 32 or byte > 126 or byte == 92 or (needs_quote_escapes and byte == 34):
            break
        output[output_position] = cython.cast(cython.uchar, byte)
        output_position += 1
        position += 1
    writer.width += position - start
    writer.at = output_position
    return position


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_preview(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
    max_width: cython.Py_ssize_t,
    needs_quote_escapes: cython.bint,
) -> cython.int:
    """Write printable text unchanged and all else escaped; or bytes in HEX mode, and in BASE64 mode
    with a limit, in hexadecimal.

    A preview wider than `max_width` (0: no limit) is truncated; "…" and the size in bytes follow.
    needs_quote_escapes: whether quotes are also escaped.
    """
    start_width: cython.Py_ssize_t = writer.width
    end: cython.Py_ssize_t = position + length
    n_bytes: cython.int
    i: cython.int
    char_width: cython.int
    code_point: cython.longlong
    suffix_width: cython.Py_ssize_t = 2  # "…" and the digits of the size
    truncation_position: cython.Py_ssize_t = -1
    truncation_width: cython.Py_ssize_t = start_width
    printable_end: cython.Py_ssize_t
    size_quotient: cython.longlong = length
    if length < 0:
        return put_literal(writer, NULL)
    if max_width == 0 and mode == BASE64:
        return put_base64(writer, data, position, end)
    while size_quotient >= 10:
        size_quotient //= 10
        suffix_width += 1
    while position < end:
        if mode != HEX and mode != BASE64:
            # Copy plain characters in one go, up to the first position where it may be truncated.
            printable_end = end
            if (
                max_width > 0
                and start_width + max_width - suffix_width - writer.width < end - position
            ):
                printable_end = position + start_width + max_width - suffix_width - writer.width
            position = _put_printable(writer, data, position, printable_end, needs_quote_escapes)
            if position == end:
                break
        if max_width > 0 and writer.width - start_width <= max_width - suffix_width:
            truncation_position = writer.at
            truncation_width = writer.width
        if mode == HEX or mode == BASE64:
            put_hex_digit(writer, data[position] >> 4)
            put_hex_digit(writer, data[position] & 15)
            position += 1
        else:
            n_bytes = utf8_length(data, position, end)
            code_point = data[position]
            if n_bytes > 1:
                code_point = code_point & (0x7F >> n_bytes)
                for i in range(1, n_bytes):
                    code_point = (code_point << 6) | (data[position + i] & 0x3F)
                char_width = _display_width(writer, code_point)
            else:
                char_width = 1 if n_bytes == 1 and code_point >= 32 and code_point < 127 else -2
            if n_bytes == 1 and (code_point == 92 or (needs_quote_escapes and code_point == 34)):
                put_byte(writer, 92)
                put_byte(writer, cython.cast(cython.int, code_point))
            elif char_width < 0:
                _put_escape(writer, code_point, n_bytes)
            else:
                for i in range(n_bytes):
                    put_byte(writer, data[position + i])
                writer.width += char_width - n_bytes
            position += n_bytes if n_bytes > 0 else 1
        if max_width > 0 and writer.width - start_width > max_width:
            writer.at = truncation_position if truncation_position >= 0 else writer.at
            writer.width = truncation_width if truncation_position >= 0 else writer.width
            put_literal(writer, ELLIPSIS)
            return put_number(writer, length, False)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def end_cell(
    writer: Writer,
    cell_start: cython.Py_ssize_t,
    cell_width: cython.Py_ssize_t,
    alignment: cython.int,
    is_truncated: cython.bint,
) -> cython.int:
    """Pad the text written since `cell_start` to a width; if `is_truncated`, truncate wider text.

    alignment: 0 aligns left, 1 aligns right, 2 does not pad.
    """
    output_position: cython.Py_ssize_t
    padding: cython.Py_ssize_t = cell_width - writer.width
    if padding < 0 and is_truncated:
        output_position = cell_start
        writer.width = 0
        while (
            output_position < writer.at and writer.width < cell_width - 1
        ):  # truncated cells have narrow characters only
            output_position += 1
            while output_position < writer.at and writer.out[output_position] & 0xC0 == 0x80:
                output_position += 1
            writer.width += 1
        writer.at = output_position
        return put_literal(writer, ELLIPSIS)
    if padding <= 0 or alignment == 2:
        return 0
    if alignment == 1:
        output_position = writer.at - 1
        while output_position >= cell_start:
            writer.out[output_position + padding] = writer.out[output_position]
            output_position -= 1
        for output_position in range(cell_start, cell_start + padding):
            writer.out[output_position] = 32
        writer.at += padding
    else:
        for output_position in range(padding):
            put_byte(writer, 32)
    return 0
