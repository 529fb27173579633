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
    data: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.int:
    """The bytes of the UTF-8 character at byte `position` (Unicode 15, table 3-7); 0 if
    malformed."""
    first_byte: cython.int = data[position]
    n_bytes: cython.int
    i: cython.int
    if first_byte < 0x80:
        return 1
    if first_byte < 0xC2 or first_byte > 0xF4:
        return 0
    n_bytes = 2 if first_byte < 0xE0 else 3 if first_byte < 0xF0 else 4
    if n_bytes > end - position:
        return 0
    for i in range(1, n_bytes):
        if data[position + i] & 0xC0 != 0x80:
            return 0
    if (
        (first_byte == 0xE0 and data[position + 1] < 0xA0)
        or (first_byte == 0xED and data[position + 1] > 0x9F)
        or (first_byte == 0xF0 and data[position + 1] < 0x90)
        or (first_byte == 0xF4 and data[position + 1] > 0x8F)
    ):
        return 0
    return n_bytes


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def is_utf8(
    data: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.int:
    n_bytes: cython.int
    while position < end:
        if data[position] < 0x80:
            position += 1
            continue
        n_bytes = utf8_length(data, position, end)
        if n_bytes == 0:
            return 0
        position += n_bytes
    return 1


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _put_json_text(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    replaces_malformed: cython.bint,
) -> cython.int:
    """Write the content of a JSON string; returns 0 if bytes are not UTF-8 and not replaced."""
    output: cython.uchar[::1] = writer.out
    output_position: cython.Py_ssize_t = writer.at
    byte: cython.int
    escape_letter: cython.int
    n_bytes: cython.int
    i: cython.int
    while position < end:
        byte = data[position]
        if byte >= 0x20 and byte < 0x7F and byte != 0x22 and byte != 0x5C:
            output[output_position] = cython.cast(cython.uchar, byte)
            output_position += 1
            position += 1
            continue
        if byte == 0x22 or byte == 0x5C:
            output[output_position] = 0x5C
            output[output_position + 1] = cython.cast(cython.uchar, byte)
            output_position += 2
            position += 1
            continue
        n_bytes = utf8_length(data, position, end)
        if n_bytes == 0:
            if not replaces_malformed:
                return 0
            writer.at = output_position
            put_literal(writer, REPLACEMENT)
            output_position = writer.at
            position += 1
            continue
        if n_bytes == 1 or (n_bytes == 2 and byte == 0xC2 and data[position + 1] < 0xA0):
            escape_letter = short_escape_letter(data[position + n_bytes - 1])
            if escape_letter:
                output[output_position] = 0x5C
                output[output_position + 1] = cython.cast(cython.uchar, escape_letter)
                output_position += 2
            else:
                writer.at = output_position
                put_escape(writer, data, position, n_bytes)
                output_position = writer.at
        elif is_bidi_or_line_end(data, position, n_bytes):
            writer.at = output_position
            put_escape(writer, data, position, n_bytes)
            output_position = writer.at
        else:
            for i in range(n_bytes):
                output[output_position + i] = data[position + i]
            output_position += n_bytes
        position += n_bytes
    writer.at = output_position
    return 1


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_escape(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    n_bytes: cython.int,
) -> cython.int:
    """Write a character of one, two or three bytes as \\uhhhh."""
    i: cython.int
    code_point: cython.int = data[position] & (
        0x7F if n_bytes == 1 else 0x1F if n_bytes == 2 else 0xF
    )
    for i in range(1, n_bytes):
        code_point = (code_point << 6) | (data[position + i] & 0x3F)
    put_byte(writer, 0x5C)
    put_byte(writer, 117)
    for i in range(4):
        put_hex_digit(writer, (code_point >> (12 - 4 * i)) & 15)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def is_bidi_or_line_end(
    data: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, n_bytes: cython.int
) -> cython.int:
    """Whether the character of n bytes at byte `position` changes the display order of text or ends
    a line (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069)."""
    last_byte: cython.int
    if n_bytes == 2:
        return data[position] == 0xD8 and data[position + 1] == 0x9C
    if n_bytes != 3 or data[position] != 0xE2:
        return 0
    last_byte = data[position + 2]
    if data[position + 1] == 0x80:
        return last_byte == 0x8E or last_byte == 0x8F or (last_byte >= 0xA8 and last_byte <= 0xAE)
    return data[position + 1] == 0x81 and last_byte >= 0xA6 and last_byte <= 0xA9


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
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
    encoding_literal: cython.Py_ssize_t,
) -> cython.int:
    """Write null, a string of text, or one in another encoding and the member that names it.

    encoding_literal: the index of the first of the literals for that member (utf8, hex, base64).
    """
    output_start: cython.Py_ssize_t = writer.at
    end: cython.Py_ssize_t = start + length
    if length < 0:
        return put_literal(writer, NULL)
    put_byte(writer, 34)
    if (mode == AUTO or mode == UTF8) and _put_json_text(writer, data, start, end, False):
        return put_byte(writer, 34)
    writer.at = output_start + 1
    if mode == HEX:
        put_hex(writer, data, start, end)
    elif mode == UTF8:
        _put_json_text(writer, data, start, end, True)
    else:
        put_base64(writer, data, start, end)
    put_byte(writer, 34)
    return put_literal(writer, encoding_literal + (0 if mode == UTF8 else 1 if mode == HEX else 2))


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def csv_encoding(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
) -> cython.int:
    """The mode of a CSV field; AUTO (text) is only for UTF-8 that cannot control a terminal."""
    i: cython.Py_ssize_t
    n_bytes: cython.int
    if length < 0:
        return AUTO
    if mode == AUTO or mode == UTF8:
        if not is_utf8(data, start, start + length):
            return BASE64
        for i in range(start, start + length):
            if (data[i] < 32 and data[i] != 9 and data[i] != 10 and data[i] != 13) or (
                data[i] == 0x7F or (data[i] == 0xC2 and data[i + 1] < 0xA0)
            ):
                return BASE64
            n_bytes = 2 if data[i] == 0xD8 else 3 if data[i] == 0xE2 else 0
            if n_bytes and is_bidi_or_line_end(data, i, n_bytes):
                return BASE64
        return AUTO
    return mode


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def put_csv_bytes(
    writer: Writer,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    length: cython.longlong,
    mode: cython.int,
) -> cython.int:
    """Write a quoted CSV field; null becomes nothing, empty bytes become ""."""
    if length < 0:
        return 0
    output_start: cython.Py_ssize_t = writer.at
    put_byte(writer, 34)
    mode = csv_encoding(data, start, length, mode)
    if mode == HEX:
        put_hex(writer, data, start, start + length)
    elif mode == BASE64:
        put_base64(writer, data, start, start + length)
    else:
        copy_bytes(writer, data, start, length)
        double_quotes(writer, output_start + 1)
    return put_byte(writer, 34)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def double_quotes(writer: Writer, output_start: cython.Py_ssize_t) -> cython.int:
    """Double each quote in the text written since `output_start`."""
    n_quotes: cython.Py_ssize_t = 0
    read_position: cython.Py_ssize_t
    write_position: cython.Py_ssize_t
    for read_position in range(output_start, writer.at):
        if writer.out[read_position] == 34:
            n_quotes += 1
    if n_quotes == 0:
        return 0
    read_position = writer.at - 1
    write_position = read_position + n_quotes
    writer.at += n_quotes
    while write_position > read_position:
        writer.out[write_position] = writer.out[read_position]
        if writer.out[read_position] == 34:
            write_position -= 1
            writer.out[write_position] = 34
        write_position -= 1
        read_position -= 1
    return 0
