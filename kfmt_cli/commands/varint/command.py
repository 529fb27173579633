"""encode-varint and decode-varint: the steps from a number to its varint."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.varint.options import (
    ENCODING_BY_NAME,
    DecodeVarintOptions,
    EncodeVarintOptions,
)
from kfmt_cli.core.layout import varint
from kfmt_cli.core.layout.varint import VARINT_MASKS
from kfmt_cli.core.layout.wire_types import VarintWireType
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.documents import VARINT_ROW


@dataclass(slots=True)
class EncodeVarintCommand:
    """One call of `encode-varint`."""

    run: CommandRun
    options: EncodeVarintOptions

    def execute(self) -> None:
        """Show how the numbers are encoded; raises UsageError."""
        encoding = ENCODING_BY_NAME[self.options.type_]
        numbers = [_parse_number(text, encoding) for text in self.options.numbers]
        numbers_and_bytes = [(number, encoding.encode(number)) for number in numbers]
        _write_varints(self.run, numbers_and_bytes, encoding)


@dataclass(slots=True)
class DecodeVarintCommand:
    """One call of `decode-varint`."""

    run: CommandRun
    options: DecodeVarintOptions

    def execute(self) -> None:
        """Show how the varints are decoded; raises UsageError."""
        encoding = ENCODING_BY_NAME[self.options.type_]
        encoded_bytes = _parse_hex(self.options.hex_)
        numbers_and_bytes = []
        position = 0
        while position < len(encoded_bytes):
            number, next_position = _decode_varint(encoded_bytes, position, encoding)
            numbers_and_bytes.append((number, encoded_bytes[position:next_position]))
            position = next_position
        _write_varints(self.run, numbers_and_bytes, encoding)


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
    run: CommandRun, numbers_and_bytes: list[tuple[int, bytes]], encoding: VarintWireType
) -> None:
    for i, (number, varint_bytes) in enumerate(numbers_and_bytes):
        row = {
            "encoding": encoding.name,
            "value": number,
            "zigzag": varint.zigzag_encode(number, encoding.bits) if encoding.signed else None,
            "hex": varint_bytes.hex(),
            "size": len(varint_bytes),
        }
        lines = ["\n" if i else "", _varint_lines(number, varint_bytes, encoding, run.output.theme)]
        run.sink.write_document(VARINT_ROW, row, lines)


def _varint_lines(number: int, octets: bytes, encoding: VarintWireType, theme: Theme) -> str:
    """The steps from a number to its bytes, one per line."""
    n_bits = encoding.bits
    uint = varint.zigzag_encode(number, n_bits) if encoding.signed else number
    bit_groups = varint.seven_bit_groups(uint)
    bytes_with_flags = [
        f"{theme.paint('flag', str(byte >> 7))}·{byte & 0x7F:07b}" for byte in octets
    ]
    encoding_text = f"{'zigzag' if encoding.signed else 'unsigned'}, {n_bits} bits"
    titled_steps = [
        ("value", f"{_format_binary(number, n_bits)}   {theme.paint('offset', str(number))}")
    ]
    if encoding.signed:
        formula = f"({number} << 1) ^ ({number} >> {n_bits - 1})"
        titled_steps.append(
            (
                "zigzag",
                f"{_format_binary(uint, n_bits)}   {theme.paint('offset', str(uint))} = {formula}",
            )
        )
    titled_steps += [
        (
            "groups of 7",
            "  ".join(f"{group:07b}" for group in reversed(bit_groups))
            + "   most significant first",
        ),
        (
            "reversed",
            "  ".join(bytes_with_flags) + "   least significant first; continuation bit · 7 bits",
        ),
        (
            "bytes",
            f"{theme.paint('good', octets.hex(' ').upper())}   {_size_text(len(octets), encoding)}",
        ),
    ]
    article = "an" if encoding.name[0] == "u" else "a"
    lines = [theme.paint("bold", f" {number} as {article} {encoding.name} ({encoding_text})")]
    lines += [
        f"   {theme.paint('dim', f'{step_title:<12}')} {step_text}"
        for step_title, step_text in titled_steps
    ]
    return "\n".join(lines) + "\n"


def _format_binary(number: int, n_bits: int) -> str:
    """Two's complement in nibbles, two per byte; leading bytes of equal bits are omitted."""
    uint = number & varint.VARINT_MASKS[n_bits]
    binary_digits = f"{uint:0{n_bits}b}"
    return "  ".join(
        f"{binary_digits[i : i + 4]} {binary_digits[i + 4 : i + 8]}" for i in range(0, n_bits, 8)
    )


def _size_text(n_bytes: int, encoding: VarintWireType) -> str:
    fixed_size = encoding.bits // 8
    n_saved = fixed_size - n_bytes
    gain_text = (
        f"{n_saved} saved" if n_saved > 0 else f"{-n_saved} more" if n_saved < 0 else "none saved"
    )
    type_name = f"{'an ' if encoding.signed else 'a u'}int{encoding.bits}"
    return (
        f"{n_bytes} byte{'s' if n_bytes > 1 else ''}; {type_name} takes {fixed_size}: {gain_text}"
    )
