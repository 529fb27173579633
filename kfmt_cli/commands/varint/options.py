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
from kfmt_cli.rows.documents import VARINT_ROW

ENCODING_BY_NAME = {
    encoding.name: encoding
    for encoding in (
        *(ZigZag32, ZigZag64),
        VarintWireType("unsigned_varint", 32, signed=False),
        VarintWireType("unsigned_varlong", 64, signed=False),
    )
}
ENCODING_NAME_BY_ALIAS = {
    "unsigned": "unsigned_varint",
    "uvarint": "unsigned_varint",
    "uvarlong": "unsigned_varlong",
}


class EncodingChoice(click.Choice[str]):
    """The name of an encoding, with - or _."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        normalized_name = value.lower().replace("-", "_")
        encoding_name: str = super().convert(
            ENCODING_NAME_BY_ALIAS.get(normalized_name, normalized_name), param, ctx
        )
        return encoding_name


_type_option = click.option(
    "--type",
    "type_",
    type=EncodingChoice([*ENCODING_BY_NAME]),
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
    encoding = ENCODING_BY_NAME[type_]
    parsed_numbers = [_parse_number(text, encoding) for text in numbers]
    _write_varints(
        [(number, encoding.encode(number)) for number in parsed_numbers], encoding, common
    )


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
    encoding = ENCODING_BY_NAME[type_]
    encoded_bytes = _parse_hex(hex_)
    numbers_and_bytes = []
    position = 0
    while position < len(encoded_bytes):
        number, next_position = _decode_varint(encoded_bytes, position, encoding)
        numbers_and_bytes.append((number, encoded_bytes[position:next_position]))
        position = next_position
    _write_varints(numbers_and_bytes, encoding, common)


def _parse_number(text: str, encoding: VarintWireType) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        raise UsageError(f"{text!r}: not an integer") from None
    min_number = -(1 << encoding.bits - 1) if encoding.signed else 0
    max_number = min_number + VARINT_MASKS[encoding.bits]
    if not min_number <= number <= max_number:
        unsigned_value = number & VARINT_MASKS[encoding.bits]
        is_negative = not encoding.signed and -unsigned_value < number < 0
        hint = f"; for its {encoding.bits} bits without zigzag, give {unsigned_value}"
        raise UsageError(
            f"{text} is out of range: {encoding.name} takes "
            f"{min_number} to {max_number}{hint if is_negative else ''}"
        )
    return number


def _parse_hex(texts: tuple[str, ...]) -> bytes:
    hex_digits = "".join(re.sub(r"[\s:,]", "", text).lower().removeprefix("0x") for text in texts)
    try:
        parsed_bytes = bytes.fromhex(hex_digits)
    except ValueError:
        raise UsageError(f"{' '.join(texts)!r} is not hexadecimal, two digits per byte") from None
    if not parsed_bytes:
        raise UsageError("no bytes given")
    return parsed_bytes


def _decode_varint(
    encoded_bytes: bytes, position: int, encoding: VarintWireType
) -> tuple[int, int]:
    """The value at `position` and its end. Stricter than Kafka: raises UsageError for a long
    form."""
    location = f"byte {position} of {encoded_bytes.hex()}"
    try:
        uint, end_position = varint.decode_uvarint(
            encoded_bytes, position, len(encoded_bytes), encoding.bits
        )
    except varint.VarintError as error:
        raise UsageError(f"{location}: {error}") from None
    varint_bytes = encoded_bytes[position:end_position]
    untruncated_number = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(varint_bytes))
    if untruncated_number != uint:
        raise UsageError(f"{location}: {varint_bytes.hex()} has more than {encoding.bits} bits")
    if varint.encode_uvarint(uint) != varint_bytes:
        raise UsageError(
            f"{location}: {varint_bytes.hex()} is longer than necessary; "
            f"{varint.encode_uvarint(uint).hex()} encodes "
            "the same value (Kafka reads the long form but never writes it)"
        )
    return varint.zigzag_decode(uint) if encoding.signed else uint, end_position


def _write_varints(
    numbers_and_bytes: list[tuple[int, bytes]], encoding: VarintWireType, common: CommonOptions
) -> None:
    run = common.start_run()
    for i, (number, varint_bytes) in enumerate(numbers_and_bytes):
        row = {
            "encoding": encoding.name,
            "value": number,
            "zigzag": varint.zigzag_encode(number, encoding.bits) if encoding.signed else None,
            "hex": varint_bytes.hex(),
            "size": len(varint_bytes),
        }
        lines = ["\n" if i else "", varint_lines(number, varint_bytes, encoding, run.output.theme)]
        run.sink.write_document(VARINT_ROW, row, lines)
