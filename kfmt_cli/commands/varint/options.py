"""Options of encode-varint and decode-varint."""

from __future__ import annotations

import re

import click

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import Common, common
from kfmt_cli.commands.varint.lines import varint_lines
from kfmt_cli.core.layout import varint
from kfmt_cli.core.layout.varint import MASKS
from kfmt_cli.core.layout.wire import Varint, ZigZag32, ZigZag64
from kfmt_cli.errors import UsageError
from kfmt_cli.rows.documents import VARINT

ENCODINGS = {
    encoding.name: encoding
    for encoding in (
        *(ZigZag32, ZigZag64),
        Varint("unsigned_varint", 32, signed=False),
        Varint("unsigned_varlong", 64, signed=False),
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


@command(
    name="encode-varint",
    context_settings=_NUMBERS,
    short_help="Encode numbers as varints, step by step.",
)
@click.argument("numbers", nargs=-1, required=True, metavar="N...")
@_type_option
@common("format", "color")
def encode_varint(
    numbers: tuple[str, ...],
    type_: str,
    common: Common,
) -> None:
    """Show step by step how numbers are encoded as varints.

    \b
    Examples:
      kfmt encode-varint 300
      kfmt encode-varint -1 63 64
      kfmt encode-varint --type unsigned_varint 300
      kfmt encode-varint --type unsigned_varlong 18446744073709551615
    """
    encoding = ENCODINGS[type_]
    values = [_number(words, encoding) for words in numbers]
    _show([(value, encoding.write(value)) for value in values], encoding, common)


@command(name="decode-varint", short_help="Decode varints, step by step.")
@click.argument("hex_", nargs=-1, required=True, metavar="HEX...")
@_type_option
@common("format", "color")
def decode_varint(
    hex_: tuple[str, ...],
    type_: str,
    common: Common,
) -> None:
    """Decode the varints in some hex bytes, step by step.

    Several arguments are joined into one byte string, which may hold several varints.

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
    _show(found, encoding, common)


def _number(words: str, encoding: Varint) -> int:
    try:
        value = int(words, 0)
    except ValueError:
        raise UsageError(f"{words!r}: not an integer") from None
    lowest = -(1 << encoding.bits - 1) if encoding.signed else 0
    highest = lowest + MASKS[encoding.bits]
    if not lowest <= value <= highest:
        unsigned = value & MASKS[encoding.bits]
        is_negative = not encoding.signed and -unsigned < value < 0
        hint = f"; for its {encoding.bits} bits without zigzag, give {unsigned}"
        raise UsageError(
            f"{words} is out of range: {encoding.name} takes "
            f"{lowest} to {highest}{hint if is_negative else ''}"
        )
    return value


def _bytes(words: tuple[str, ...]) -> bytes:
    joined = "".join(re.sub(r"[\s:,]", "", word).lower().removeprefix("0x") for word in words)
    try:
        data = bytes.fromhex(joined)
    except ValueError:
        raise UsageError(f"{' '.join(words)!r} is not hexadecimal, two digits per byte") from None
    if not data:
        raise UsageError("no bytes given")
    return data


def _decode(data: bytes, at: int, encoding: Varint) -> tuple[int, int]:
    """The value at `at` and its end. Stricter than Kafka: raises UsageError for a long form."""
    where = f"byte {at} of {data.hex()}"
    try:
        raw, after = varint.decode(data, at, len(data), encoding.bits)
    except varint.VarintError as error:
        raise UsageError(f"{where}: {error}") from None
    piece = data[at:after]
    wide = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(piece))
    if wide != raw:
        raise UsageError(f"{where}: {piece.hex()} has more than {encoding.bits} bits")
    if varint.encode(raw) != piece:
        raise UsageError(
            f"{where}: {piece.hex()} is longer than necessary; {varint.encode(raw).hex()} encodes "
            "the same value (Kafka reads the long form but never writes it)"
        )
    return varint.unzigzag(raw) if encoding.signed else raw, after


def _show(found: list[tuple[int, bytes]], encoding: Varint, common: Common) -> None:
    run = common.run()
    for i, (value, data) in enumerate(found):
        row = {
            "encoding": encoding.name,
            "value": value,
            "zigzag": varint.zigzag(value, encoding.bits) if encoding.signed else None,
            "hex": data.hex(),
            "size": len(data),
        }
        lines = ["\n" if i else "", varint_lines(value, data, encoding, run.host.theme)]
        run.sink.document(VARINT, row, lines)
