"""A drawing of the steps from a number to its varint."""

from __future__ import annotations

from kfmt_cli.core.layout import varint
from kfmt_cli.core.layout.wire_types import VarintWireType
from kfmt_cli.render.style import Theme


def varint_lines(value: int, data: bytes, encoding: VarintWireType, theme: Theme) -> str:
    """The steps from a number to its bytes, one per line."""
    bits = encoding.bits
    raw = varint.zigzag_encode(value, bits) if encoding.signed else value
    groups = varint.varint_groups(raw)
    bytes_with_flags = [f"{theme.paint('flag', str(byte >> 7))}·{byte & 0x7F:07b}" for byte in data]
    encoding_text = f"{'zigzag' if encoding.signed else 'unsigned'}, {bits} bits"
    steps = [("value", f"{_format_binary(value, bits)}   {theme.paint('offset', str(value))}")]
    if encoding.signed:
        formula = f"({value} << 1) ^ ({value} >> {bits - 1})"
        steps.append(
            (
                "zigzag",
                f"{_format_binary(raw, bits)}   {theme.paint('offset', str(raw))} = {formula}",
            )
        )
    steps += [
        (
            "groups of 7",
            "  ".join(f"{group:07b}" for group in reversed(groups)) + "   most significant first",
        ),
        (
            "reversed",
            "  ".join(bytes_with_flags) + "   least significant first; continuation bit · 7 bits",
        ),
        (
            "bytes",
            f"{theme.paint('good', data.hex(' ').upper())}   {_size_text(len(data), encoding)}",
        ),
    ]
    article = "an" if encoding.name[0] == "u" else "a"
    lines = [theme.paint("bold", f" {value} as {article} {encoding.name} ({encoding_text})")]
    lines += [f"   {theme.paint('dim', f'{name:<12}')} {text}" for name, text in steps]
    return "\n".join(lines) + "\n"


def _format_binary(value: int, bits: int) -> str:
    """Two's complement in nibbles, two per byte; leading bytes of equal bits are omitted."""
    raw = value & varint.VARINT_MASKS[bits]
    digits = f"{raw:0{bits}b}"
    return "  ".join(f"{digits[i : i + 4]} {digits[i + 4 : i + 8]}" for i in range(0, bits, 8))


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
