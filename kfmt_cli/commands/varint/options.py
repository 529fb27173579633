"""Options of encode-varint and decode-varint."""

from __future__ import annotations

import re

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options
from kfmt_cli.commands.varint.lines import varint_lines
from kfmt_cli.core.layout import varint
from kfmt_cli.core.layout.varint import VARINT_MASKS
from kfmt_cli.core.layout.wire_types import VarintWireType, ZigZag32, ZigZag64
from kfmt_cli.errors import UsageError
from kfmt_cli.rows.types.reference_rows import VARINT_ROW

ENCODINGS = {
    encoding.name: encoding
    for encoding in (
        *(ZigZag32, ZigZag64),
        VarintWireType("unsigned_varint", 32, signed=False),
        VarintWireType("unsigned_varlong", 64, signed=False),
    )
}
ALIASES = {
    "unsigned": "unsigned_varint",
    "uvarint": "unsigned_varint",
    "uvarlong": "unsigned_varlong",
}


class EncodingChoice(click.Choice[str]):
    """The name of an encoding, with - or _."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = value.lower().replace("-", "_")
        converted: str = super().convert(ALIASES.get(name, name), param, ctx)
        return converted


_type_option = click.option(
    "--type",
    "type_",
    type=EncodingChoice([*ENCODINGS]),
    default="varint",
    show_default=True,
    help="varint: 32 bits, zigzag, as in records. varlong: 64 bits, zigzag. unsigned_…: without "
    "zigzag, as in the protocol's compact types.",
)
# A negative number is an argument, not an option.
_NEGATIVE_ARGUMENTS = {"ignore_unknown_options": True}


@grouped_command(
    name="encode-varint",
    context_settings=_NEGATIVE_ARGUMENTS,
    short_help="Encode numbers as varints, step by step.",
)
@click.argument("numbers", nargs=-1, required=True, metavar="N...")
@_type_option
@common_options("format", "color")
def encode_varint(
    numbers: tuple[str, ...],
    type_: str,
    common: CommonOptions,
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
    values = [_parse_number(text, encoding) for text in numbers]
    _write_varints([(value, encoding.write(value)) for value in values], encoding, common)


@grouped_command(name="decode-varint", short_help="Decode varints, step by step.")
@click.argument("hex_", nargs=-1, required=True, metavar="HEX...")
@_type_option
@common_options("format", "color")
def decode_varint(
    hex_: tuple[str, ...],
    type_: str,
    common: CommonOptions,
) -> None:
    """Decode the varints in some hex bytes, step by step.

    Several arguments are joined into one byte string, which may hold several varints.

    \b
    Examples:
      kfmt decode-varint D804
      kfmt decode-varint AC 02 --type unsigned_varint
    """
    encoding = ENCODINGS[type_]
    data = _parse_hex(hex_)
    values_and_bytes = []
    position = 0
    while position < len(data):
        value, next_position = _decode_varint(data, position, encoding)
        values_and_bytes.append((value, data[position:next_position]))
        position = next_position
    _write_varints(values_and_bytes, encoding, common)


def _parse_number(text: str, encoding: VarintWireType) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"{text!r}: not an integer") from None
    lowest = -(1 << encoding.bits - 1) if encoding.signed else 0
    highest = lowest + VARINT_MASKS[encoding.bits]
    if not lowest <= value <= highest:
        unsigned_value = value & VARINT_MASKS[encoding.bits]
        is_negative = not encoding.signed and -unsigned_value < value < 0
        hint = f"; for its {encoding.bits} bits without zigzag, give {unsigned_value}"
        raise UsageError(
            f"{text} is out of range: {encoding.name} takes "
            f"{lowest} to {highest}{hint if is_negative else ''}"
        )
    return value


def _parse_hex(texts: tuple[str, ...]) -> bytes:
    hex_digits = "".join(re.sub(r"[\s:,]", "", text).lower().removeprefix("0x") for text in texts)
    try:
        data = bytes.fromhex(hex_digits)
    except ValueError:
        raise UsageError(f"{' '.join(texts)!r} is not hexadecimal, two digits per byte") from None
    if not data:
        raise UsageError("no bytes given")
    return data


def _decode_varint(data: bytes, start: int, encoding: VarintWireType) -> tuple[int, int]:
    """The value at `start` and its end. Stricter than Kafka: raises UsageError for a long form."""
    location = f"byte {start} of {data.hex()}"
    try:
        raw, end = varint.decode_uvarint(data, start, len(data), encoding.bits)
    except varint.VarintError as error:
        raise UsageError(f"{location}: {error}") from None
    encoded = data[start:end]
    full_value = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(encoded))
    if full_value != raw:
        raise UsageError(f"{location}: {encoded.hex()} has more than {encoding.bits} bits")
    if varint.encode_uvarint(raw) != encoded:
        raise UsageError(
            f"{location}: {encoded.hex()} is longer than necessary; "
            f"{varint.encode_uvarint(raw).hex()} encodes "
            "the same value (Kafka reads the long form but never writes it)"
        )
    return varint.zigzag_decode(raw) if encoding.signed else raw, end


def _write_varints(
    values_and_bytes: list[tuple[int, bytes]], encoding: VarintWireType, common: CommonOptions
) -> None:
    run = common.start_run()
    for i, (value, data) in enumerate(values_and_bytes):
        row = {
            "encoding": encoding.name,
            "value": value,
            "zigzag": varint.zigzag_encode(value, encoding.bits) if encoding.signed else None,
            "hex": data.hex(),
            "size": len(data),
        }
        lines = ["\n" if i else "", varint_lines(value, data, encoding, run.host.theme)]
        run.sink.write_document(VARINT_ROW, row, lines)
