"""A drawing of the attribute bits of a batch: every bit with its name and its value."""

from __future__ import annotations

from kfmt_cli.core.layout.field import BitField
from kfmt_cli.formats.batch import ATTRIBUTES
from kfmt_cli.formats.legacy import ATTRIBUTES_V0, ATTRIBUTES_V1
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.log_tables import BatchTable

BIT_WIDTH = 3  # screen columns per bit


ATTRIBUTES_BY_MAGIC = ((ATTRIBUTES_V0, 8), (ATTRIBUTES_V1, 8), (ATTRIBUTES, 16))


def batch_bits(batches: BatchTable, i: int, theme: Theme) -> str:
    """The drawing of the attribute bits of batch i, under a line that identifies the batch."""
    magic, attributes = int(batches.magic[i]), int(batches.attributes[i])
    bit_fields, width = ATTRIBUTES_BY_MAGIC[magic]
    base_offset, last_offset = batches.base_offset[i], batches.last_offset[i]
    offsets_text = f"{base_offset}–{last_offset}"
    if not batches.has_base_offset[i]:
        offsets_text = f"…{last_offset}"
    elif base_offset == last_offset:
        offsets_text = f"{base_offset}"
    title = (
        f" batch at {batches.position[i]}, offsets {offsets_text}, magic {magic}    "
        f"attributes 0x{attributes & (1 << width) - 1:0{width // 4}x}"
    )
    return "\n".join([title, *draw_bits(bit_fields, attributes, width, theme), "", ""])


def draw_bits(
    bit_fields: tuple[BitField, ...], attributes: int, width: int, theme: Theme
) -> list[str]:
    """Lines for an attributes field of `width` bits with the value `attributes`.

    The bits are in one row, the highest first; a line leads from each named group down to its name,
    value and meaning.
    """
    attributes &= (1 << width) - 1
    bit_numbers = "".join(f"{bit:>{BIT_WIDTH}}" for bit in reversed(range(width)))
    bit_values = "".join(
        _format_bit(attributes >> bit & 1, theme) for bit in reversed(range(width))
    )
    lines = [theme.paint("dim", f"  {bit_numbers}"), f"  {bit_values}"]
    sorted_groups = sorted(bit_fields, key=lambda bits: bits.shift)
    used_width = max(bits.shift + bits.width for bits in sorted_groups)
    groups = [*sorted_groups]
    if used_width < width:
        groups.append(BitField("unused", used_width, width - used_width))
    for i, bits in enumerate(groups):
        rails = "".join(_rail(later_group, width) for later_group in reversed(groups[i + 1 :]))
        rails = rails.ljust(_bit_column(bits.shift + bits.width - 1, width))
        lines.append(
            "  " + rails + _leader(bits, width) + " " + _describe_group(bits, attributes, theme)
        )
    return lines


def _format_bit(value: int, theme: Theme) -> str:
    cell = f"{value:>{BIT_WIDTH}}"
    return theme.paint("flag", cell) if value else cell


def _bit_column(bit: int, width: int) -> int:
    """The screen column of a bit's digit."""
    return (width - 1 - bit) * BIT_WIDTH + BIT_WIDTH - 1


def _rail(bits: BitField, width: int) -> str:
    """The part of a text line that a later group's vertical line crosses."""
    first = _bit_column(bits.shift + bits.width - 1, width)
    gap_start = (
        0 if bits.shift + bits.width == width else _bit_column(bits.shift + bits.width, width) + 1
    )
    return " " * (first - gap_start) + "│".ljust(_bit_column(bits.shift, width) - first + 1)


def _leader(bits: BitField, width: int) -> str:
    """The line from a group of bits to its text on the right."""
    first = _bit_column(bits.shift + bits.width - 1, width)
    branch_columns = {
        _bit_column(bit, width) for bit in range(bits.shift, bits.shift + bits.width)
    } - {first}
    end = width * BIT_WIDTH
    return "└" + "".join(
        "┴" if column in branch_columns else "─" for column in range(first + 1, end + 1)
    )


def _describe_group(bits: BitField, attributes: int, theme: Theme) -> str:
    value = bits.extract(attributes)
    if bits.name == "unused":
        return theme.paint("dim", f"unused {value}")
    name = bits.name.replace("_", " ")
    text = f"{name} {value} = {bits.symbol(value)}"
    return theme.paint("flag", text) if value else text
