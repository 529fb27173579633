"""A drawing of the steps from a number to its varint."""

from __future__ import annotations

from kfmt_cli.core.layout import varint
from kfmt_cli.core.layout.wire_types import VarintWireType
from kfmt_cli.render.style import Theme


def varint_lines(number: int, octets: bytes, encoding: VarintWireType, theme: Theme) -> str:
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
