"""Options of encode-varint and decode-varint."""

from __future__ import annotations

import click

from kfmt_cli.core.layout.wire_types import VarintWireType, ZigZag32, ZigZag64
from kfmt_cli.options.common import CommonOptions
from kfmt_cli.options.declaration import argument, command_options, option

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


def _type_option() -> str:
    """Declare --type."""
    return option(
        "--type",
        default="varint",
        type=EncodingChoice([*ENCODING_BY_NAME]),
        help="varint: 32 bits, zigzag, as in records. varlong: 64 bits, zigzag. unsigned_…: "
        "without zigzag, as in the protocol's compact types.",
    )


@command_options(
    "encode-varint",
    "Encode numbers as varints, step by step.",
    common=("format_", "table", "color"),
    # A negative number is an argument, not an option.
    context_settings={"ignore_unknown_options": True},
)
class EncodeVarintOptions(CommonOptions):
    """Show step by step how numbers are encoded as varints.

    \b
    Examples:
      kfmt encode-varint 300
      kfmt encode-varint -1 63 64
      kfmt encode-varint --type unsigned_varint 300
      kfmt encode-varint --type unsigned_varlong 18446744073709551615
    """

    numbers: tuple[str, ...] = argument("N...", nargs=-1)
    type_: str = _type_option()


@command_options(
    "decode-varint", "Decode varints, step by step.", common=("format_", "table", "color")
)
class DecodeVarintOptions(CommonOptions):
    """Decode the varints in some hex bytes, step by step.

    Several arguments are joined into one byte string, which may contain several varints.

    \b
    Examples:
      kfmt decode-varint D804
      kfmt decode-varint AC 02 --type unsigned_varint
    """

    hex_: tuple[str, ...] = argument("HEX...", nargs=-1)
    type_: str = _type_option()
