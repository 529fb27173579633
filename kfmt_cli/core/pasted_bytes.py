"""Bytes from pasted text: hex digits, dumps, base64, byte literals of programming languages."""

from __future__ import annotations

import ast
import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

HEX_PREFIX, BASE64_PREFIX = "hex:", "base64:"
PASTED_PREFIXES = (HEX_PREFIX, BASE64_PREFIX, "b'", 'b"', "\\x")
HEX_DIGITS = "hex digits"
_HEX_SEPARATORS = re.compile(r"[\s:,;{}\[\]()]|0[xX]")
_HEX = re.compile(r"[0-9a-fA-F]+")
# Without a prefix, base64 must begin with the zeros of an offset, as a batch does.
_BASE64 = re.compile(r"AAA[A-Za-z0-9+/_-]{5,}={0,2}")
_ESCAPED = re.compile(r"""(?:["'\s\\]*(?:\\x[0-9a-fA-F]{2})+["'\s\\]*)+""")
_NUMBERS = re.compile(r"\[\s*-?\d{1,3}(?:\s*[,\s]\s*-?\d{1,3})*\s*,?\s*\]")
_DUMP_LINE = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{4,16}):?(?:[ \t]+(.*))?")
_UTF8_BOM = "\ufeff"


def is_pasted_text(argument: str) -> bool:
    """Whether an argument is pasted bytes rather than a path."""
    return argument.startswith(PASTED_PREFIXES) or "\n" in argument


class PastedBytes(NamedTuple):
    """Bytes, and the name of the text format that they were read from."""

    data: bytes
    format_name: str


class PastedTextError(ValueError):
    """Text that looks like bytes, but is not."""


def parse_pasted_bytes(text: str) -> PastedBytes | None:
    """The bytes in a pasted text; None for text that is not bytes. Raises PastedTextError.

    text: digits or a dump, also after `hex:`; base64 after `base64:`; a byte literal.
    """
    text = text.removeprefix(_UTF8_BOM).strip()
    if text.startswith(BASE64_PREFIX):
        return _parse_base64(text.removeprefix(BASE64_PREFIX))
    is_hex = text.startswith(HEX_PREFIX)
    text = text.removeprefix(HEX_PREFIX)
    for parse in (_parse_numbers, _parse_digits, _parse_dump, _parse_literal):
        if (pasted := parse(text)) is not None:
            return pasted
    if is_hex:
        digits = _HEX_SEPARATORS.sub("", text)
        is_odd = bool(_HEX.fullmatch(digits))
        raise PastedTextError(
            "needs two digits per byte" if is_odd else "has the digits 0–9 and a–f"
        )
    if _BASE64.fullmatch("".join(text.split())):
        return _parse_base64(text)
    return None


def _parse_digits(text: str) -> PastedBytes | None:
    """Digits with or without white space, colons, commas, braces and 0x."""
    digits = _HEX_SEPARATORS.sub("", text)
    if len(digits) % 2 or not _HEX.fullmatch(digits) or _is_dump(text):
        return None
    has_other_signs = bool(re.search(r"[^0-9a-fA-F\s]", text))
    return PastedBytes(
        bytes.fromhex(digits), "a list of hex bytes" if has_other_signs else HEX_DIGITS
    )


def _parse_literal(text: str) -> PastedBytes | None:
    """b'…' of Python, or \\x escapes as in C, several strings included."""
    if text.startswith(("b'", 'b"')):
        try:
            literal = ast.literal_eval(text)
        except (SyntaxError, ValueError, MemoryError) as error:
            raise PastedTextError(f"not a byte literal: {error}") from None
        return PastedBytes(literal, "a Python literal") if isinstance(literal, bytes) else None
    if _ESCAPED.fullmatch(text):
        digits = "".join(re.findall(r"\\x([0-9a-fA-F]{2})", text))
        return PastedBytes(bytes.fromhex(digits), "\\x escapes")
    return None


def _parse_numbers(text: str) -> PastedBytes | None:
    """[0, 0, -1, 255], as Java, Go, JavaScript and Python print bytes."""
    if not _NUMBERS.fullmatch(text):
        return None
    texts = re.findall(r"-?\d+", text)
    numbers = [int(number) for number in texts]
    if all(len(number) == 2 for number in texts) or any(
        not -128 <= number <= 255 for number in numbers
    ):
        return None
    return PastedBytes(bytes(number & 0xFF for number in numbers), "a list of numbers")


def _parse_base64(text: str) -> PastedBytes:
    digits = "".join(text.split()).translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return PastedBytes(
            base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True), "base64"
        )
    except binascii.Error as error:
        raise PastedTextError(f"not base64: {error}") from None


# Dumps: an address, the bytes, and maybe their characters.


class _DumpLine(NamedTuple):
    number: int
    address_text: str
    content: str


def _is_dump(text: str) -> bool:
    """Whether a text has lines with addresses that count their bytes."""
    lines = _dump_lines(text)
    if lines is None or len(lines) < 2:
        return False
    widths = [b - a for a, b in zip(_addresses(lines, 16), _addresses(lines, 16)[1:], strict=False)]
    return widths[0] > 0 and all(width >= 0 for width in widths)


def _dump_lines(text: str) -> list[_DumpLine] | None:
    """The lines with addresses; a line `*` stands for repeated ones. None for other text."""
    lines: list[_DumpLine] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if line.strip() == "*":
            lines.append(_DumpLine(number, "*", ""))
        elif match := _DUMP_LINE.fullmatch(line):
            lines.append(_DumpLine(number, match[1], match[2] or ""))
        else:
            return None
    return lines if lines and lines[0].address_text != "*" else None


def _addresses(lines: list[_DumpLine], base: int) -> list[int]:
    try:
        return [int(line.address_text, base) for line in lines if line.address_text != "*"]
    except ValueError:
        return [0]


def _parse_dump(text: str) -> PastedBytes | None:
    """The output of xxd, hexdump -C, hexdump, od -t x1, tcpdump -X, or what Wireshark copies."""
    lines = _dump_lines(text)
    if lines is None:
        return None
    is_xxd = bool(re.match(r"\s*[0-9a-fA-F]+:", text))
    is_tcpdump = bool(re.match(r"\s*0x", text))
    has_bars = any(re.search(r"\|.*\|?\s*$", line.content) for line in lines)
    first_tokens = lines[0].content.split()
    if not first_tokens or not _HEX.fullmatch(first_tokens[0]):
        return None
    has_addresses = len(lines) > 1 or not int(lines[0].address_text, 16)
    if not (has_addresses or is_xxd or is_tcpdump or has_bars):
        return None
    has_units = len(first_tokens[0]) == 4 and not is_xxd and not is_tcpdump
    name = (
        *(name for name, is_it in (("tcpdump -X", is_tcpdump), ("xxd", is_xxd)) if is_it),
        *(("hexdump -C",) if has_bars else ()),
        *(("hexdump",) if has_units else ()),
        "od -t x1" if len(lines[0].address_text) in (6, 7) else "a hex dump",
    )[0]
    gap = 2 if is_xxd or is_tcpdump else 3
    rows = [list(_row_bytes(line.content, gap, has_units)) for line in lines]
    for base in (16, 8, 10):
        if (data := _join_rows(lines, rows, base)) is not None:
            return PastedBytes(data, name)
    raise PastedTextError(_describe_gap(lines, rows, name))


def _row_bytes(content: str, gap: int, has_units: bool) -> Iterator[int]:
    """The bytes of a line. gap: the number of spaces before the characters. has_units: whether it
    has numbers of 16 bits, little-endian."""
    content = re.split(r"\||>", content)[0]
    content = re.split(rf"[ \t]{{{gap},}}", content.rstrip())[0]
    for token in content.split():
        if not _HEX.fullmatch(token) or len(token) % 2:
            return
        token_bytes = bytes.fromhex(token)
        yield from token_bytes[::-1] if has_units else token_bytes


def _join_rows(lines: list[_DumpLine], rows: list[list[int]], base: int) -> bytes | None:
    """The bytes of all lines; None if an address does not count the bytes before it."""
    data = bytearray()
    start: int | None = None
    is_repeated, row_bytes = False, b""
    for line, row in zip(lines, rows, strict=True):
        if line.address_text == "*":
            is_repeated = True
            continue
        try:
            address = int(line.address_text, base)
        except ValueError:
            return None
        start = address if start is None else start
        n_expected = address - start
        if is_repeated and row_bytes:
            data += row_bytes * ((n_expected - len(data)) // len(row_bytes))
            is_repeated = False
        width = len(row_bytes)
        if width and len(data) > n_expected > len(data) - width:  # characters that look like digits
            del data[n_expected:]
        if len(data) != n_expected:
            return None
        row_bytes = bytes(row)
        data += row_bytes
    return bytes(data)


def _describe_gap(lines: list[_DumpLine], rows: list[list[int]], name: str) -> str:
    """Where the addresses of a dump do not count its bytes."""
    for line, row, next_line in zip(lines, rows, lines[1:], strict=False):
        if "*" in (line.address_text, next_line.address_text):
            continue
        width = int(next_line.address_text, 16) - int(line.address_text, 16)
        if width != len(row):
            return (
                f"{name}: line {line.number} has {len(row)} bytes, but the next address is "
                f"{width} bytes later"
            )
    return f"{name}: its addresses do not match its bytes"
