"""encode-varint and decode-varint: varints as Kafka writes them, with the steps drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from kfmt_cli.cli.options import Common, color, common, output_format
from kfmt_cli.cli.screen import Screen
from kfmt_cli.core.layout import varint
from kfmt_cli.errors import UsageError
from kfmt_cli.render.formats import sink_named
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.documents import VARINT


@dataclass(frozen=True, slots=True)
class Encoding:
    """A kind of varint."""

    name: str
    bits: int
    signed: bool

    @property
    def lowest(self) -> int:
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def highest(self) -> int:
        return (1 << self.bits - self.signed) - 1

    @property
    def fixed(self) -> str:
        """The fixed-size type of the same range."""
        return f"{'' if self.signed else 'u'}int{self.bits}"


ENCODINGS = {
    encoding.name: encoding
    for encoding in (
        Encoding("varint", 32, True),
        Encoding("varlong", 64, True),
        Encoding("unsigned_varint", 32, False),
        Encoding("unsigned_varlong", 64, False),
    )
}
ALIASES = {
    "unsigned": "unsigned_varint",
    "uvarint": "unsigned_varint",
    "uvarlong": "unsigned_varlong",
}


class EncodingType(click.Choice[str]):
    """The name of an encoding, with - or _."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = value.lower().replace("-", "_")
        converted: str = super().convert(ALIASES.get(name, name), param, ctx)
        return converted


_type_option = click.option(
    "--type",
    "type_",
    type=EncodingType([*ENCODINGS]),
    default="varint",
    show_default=True,
    help="varint: 32 bits, zigzag, as in records. varlong: 64 bits, zigzag. unsigned_…: without "
    "zigzag, as in the protocol's compact types.",
)
# A negative number is an argument, not an option.
_NUMBERS = {"ignore_unknown_options": True}


@click.command(name="encode-varint", context_settings=_NUMBERS)
@click.argument("numbers", nargs=-1, required=True, metavar="N...")
@_type_option
@common(output_format, color)
def encode_varint(
    numbers: tuple[str, ...],
    type_: str,
    common: Common,
) -> None:
    """Show how numbers are written as varints, step by step.

    \b
    Examples:
      kfmt encode-varint 300
      kfmt encode-varint -1 63 64
      kfmt encode-varint --type unsigned_varint 300
    """
    encoding = ENCODINGS[type_]
    values = [_number(words, encoding) for words in numbers]
    _show(
        [(value, _encode(value, encoding)) for value in values],
        encoding,
        common.format_,
        common.color,
    )


@click.command(name="decode-varint")
@click.argument("hex_", nargs=-1, required=True, metavar="HEX...")
@_type_option
@common(output_format, color)
def decode_varint(
    hex_: tuple[str, ...],
    type_: str,
    common: Common,
) -> None:
    """Read the varints in some bytes, given in hexadecimal, step by step.

    Several arguments are read as one run of bytes; it may hold several varints.

    \b
    Examples:
      kfmt decode-varint D804
      kfmt decode-varint AC 02 --type unsigned_varint
    """
    encoding = ENCODINGS[type_]
    data = _bytes(hex_)
    found = []
    at = 0
    while at < len(data):
        value, after = _decode(data, at, encoding)
        found.append((value, data[at:after]))
        at = after
    _show(found, encoding, common.format_, common.color)


def _number(words: str, encoding: Encoding) -> int:
    try:
        value = int(words, 0)
    except ValueError:
        raise UsageError(f"{words!r} is no whole number") from None
    if not encoding.lowest <= value <= encoding.highest:
        raise UsageError(
            f"{words} is out of range: {encoding.name} takes "
            f"{encoding.lowest} to {encoding.highest}"
        )
    return value


def _encode(value: int, encoding: Encoding) -> bytes:
    return varint.encode(varint.zigzag(value, encoding.bits) if encoding.signed else value)


def _bytes(words: tuple[str, ...]) -> bytes:
    joined = "".join(re.sub(r"[\s:,]", "", word).lower().removeprefix("0x") for word in words)
    try:
        data = bytes.fromhex(joined)
    except ValueError:
        raise UsageError(f"{' '.join(words)!r} is not hexadecimal, two digits a byte") from None
    if not data:
        raise UsageError("no bytes are given")
    return data


def _decode(data: bytes, at: int, encoding: Encoding) -> tuple[int, int]:
    """The value at `at` and the byte after it; stricter than Kafka: only what a writer writes."""
    where = f"byte {at} of {data.hex()}"
    try:
        raw, after = varint.decode(data, at, len(data), encoding.bits)
    except varint.VarintError as error:
        raise UsageError(f"{where}: {error}") from None
    piece = data[at:after]
    wide = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(piece))
    if wide != raw:
        raise UsageError(f"{where}: {piece.hex()} holds more than {encoding.bits} bits")
    if varint.encode(raw) != piece:
        raise UsageError(
            f"{where}: {piece.hex()} is longer than needed, {varint.encode(raw).hex()} says the "
            "same (Kafka reads it, but does not write it)"
        )
    return varint.unzigzag(raw) if encoding.signed else raw, after


def _show(found: list[tuple[int, bytes]], encoding: Encoding, format_: str, color: str) -> None:
    screen = Screen(color)
    sink = sink_named(format_)(screen)
    for i, (value, data) in enumerate(found):
        row = {
            "encoding": encoding.name,
            "value": value,
            "zigzag": varint.zigzag(value, encoding.bits) if encoding.signed else None,
            "hex": data.hex(),
            "size": len(data),
        }
        lines = ["\n" if i else "", draw(value, data, encoding, screen.theme)]
        sink.document(VARINT, row, lines)
    sink.flush()


def draw(value: int, data: bytes, encoding: Encoding, theme: Theme) -> str:
    """The way from a number to its bytes, a line a step."""
    bits = encoding.bits
    raw = varint.zigzag(value, bits) if encoding.signed else value
    groups = varint.groups(raw)
    continued = [f"{theme.paint('flag', str(byte >> 7))}·{byte & 0x7F:07b}" for byte in data]
    kind = f"{'zigzag' if encoding.signed else 'unsigned'}, {bits} bits"
    steps = [("value", f"{_binary(value, bits)}   {theme.paint('offset', str(value))}")]
    if encoding.signed:
        how = f"({value} << 1) ^ ({value} >> {bits - 1})"
        steps.append(
            ("zigzag", f"{_binary(raw, bits)}   {theme.paint('offset', str(raw))} = {how}")
        )
    steps += [
        ("groups of 7", "  ".join(f"{group:07b}" for group in reversed(groups)) + "   high … low"),
        ("low first", "  ".join(continued) + "   continuation bit · group"),
        ("bytes", f"{theme.paint('good', data.hex(' ').upper())}   {_size(len(data), encoding)}"),
    ]
    article = "an" if encoding.name[0] == "u" else "a"
    lines = [theme.paint("bold", f" {value} as {article} {encoding.name} ({kind})")]
    lines += [f"   {theme.paint('dim', f'{name:<12}')} {words}" for name, words in steps]
    return "\n".join(lines) + "\n"


def _binary(value: int, bits: int) -> str:
    """Two's complement in nibbles, two to a byte; leading bytes of equal bits are left out."""
    raw = value & varint.MASKS[bits]
    digits = f"{raw:0{bits}b}"
    return "  ".join(f"{digits[i : i + 4]} {digits[i + 4 : i + 8]}" for i in range(0, bits, 8))


def _size(n: int, encoding: Encoding) -> str:
    fixed = encoding.bits // 8
    saved = fixed - n
    gain = f"{saved} saved" if saved > 0 else f"{-saved} more" if saved < 0 else "none saved"
    return f"{n} byte{'s' if n > 1 else ''}; an {encoding.fixed} takes {fixed}: {gain}"
