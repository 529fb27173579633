"""A drawing of the attribute bits of a batch: every bit with its name and its value."""

from __future__ import annotations

from kfmt_cli.core.layout.field import BitField
from kfmt_cli.formats.batch import ATTRIBUTES
from kfmt_cli.formats.legacy import ATTRIBUTES_V0, ATTRIBUTES_V1
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.log_tables import BatchTable

BIT_WIDTH = 3  # screen columns per bit


ATTRIBUTES_BY_MAGIC = ((ATTRIBUTES_V0, 8), (ATTRIBUTES_V1, 8), (ATTRIBUTES, 16))


def draw_batch_bits(batches: BatchTable, batch_index: int, theme: Theme) -> str:
    """The drawing of the attribute bits of batch i, under a line that identifies the batch."""
    magic, attributes = int(batches.magic[batch_index]), int(batches.attributes[batch_index])
    bit_fields, n_bits = ATTRIBUTES_BY_MAGIC[magic]
    base_offset, last_offset = batches.base_offset[batch_index], batches.last_offset[batch_index]
    offsets_text = f"{base_offset}–{last_offset}"
    if not batches.has_base_offset[batch_index]:
        offsets_text = f"…{last_offset}"
    elif base_offset == last_offset:
        offsets_text = f"{base_offset}"
    title = (
        f" batch at {batches.position[batch_index]}, offsets {offsets_text}, magic {magic}    "
        f"attributes 0x{attributes & (1 << n_bits) - 1:0{n_bits // 4}x}"
    )
    return "\n".join([title, *draw_bits(bit_fields, attributes, n_bits, theme), "", ""])


def draw_bits(
    bit_fields: tuple[BitField, ...], attributes: int, n_bits: int, theme: Theme
) -> list[str]:
    """Lines for an attributes field of `n_bits` bits with the value `attributes`.

    The bits are in one row, the highest first; a line leads from each named group down to its name,
    value and meaning.
    """
    attributes &= (1 << n_bits) - 1
    bit_numbers = "".join(f"{bit:>{BIT_WIDTH}}" for bit in reversed(range(n_bits)))
    bit_values = "".join(
        _format_bit(attributes >> bit & 1, theme) for bit in reversed(range(n_bits))
    )
    lines = [theme.paint("dim", f"  {bit_numbers}"), f"  {bit_values}"]
    named_groups = sorted(bit_fields, key=lambda bits: bits.shift)
    n_used_bits = max(bits.shift + bits.width for bits in named_groups)
    bit_groups = [*named_groups]
    if n_used_bits < n_bits:
        bit_groups.append(BitField("unused", n_used_bits, n_bits - n_used_bits))
    for group_index, bit_group in enumerate(bit_groups):
        vertical_lines = "".join(
            _vertical_line(later_group, n_bits)
            for later_group in reversed(bit_groups[group_index + 1 :])
        )
        vertical_lines = vertical_lines.ljust(
            _bit_column(bit_group.shift + bit_group.width - 1, n_bits)
        )
        lines.append(
            "  "
            + vertical_lines
            + _connector_line(bit_group, n_bits)
            + " "
            + _describe_group(bit_group, attributes, theme)
        )
    return lines


def _format_bit(bit_value: int, theme: Theme) -> str:
    bit_cell = f"{bit_value:>{BIT_WIDTH}}"
    return theme.paint("flag", bit_cell) if bit_value else bit_cell


def _bit_column(bit: int, n_bits: int) -> int:
    """The screen column of a bit's digit."""
    return (n_bits - 1 - bit) * BIT_WIDTH + BIT_WIDTH - 1


def _vertical_line(bit_group: BitField, n_bits: int) -> str:
    """The part of a text line that a later group's vertical line crosses."""
    first_column = _bit_column(bit_group.shift + bit_group.width - 1, n_bits)
    gap_column = (
        0
        if bit_group.shift + bit_group.width == n_bits
        else _bit_column(bit_group.shift + bit_group.width, n_bits) + 1
    )
    return " " * (first_column - gap_column) + "│".ljust(
        _bit_column(bit_group.shift, n_bits) - first_column + 1
    )


def _connector_line(bit_group: BitField, n_bits: int) -> str:
    """The line from a group of bits to its text on the right."""
    first_column = _bit_column(bit_group.shift + bit_group.width - 1, n_bits)
    branch_columns = {
        _bit_column(bit, n_bits)
        for bit in range(bit_group.shift, bit_group.shift + bit_group.width)
    } - {first_column}
    end_column = n_bits * BIT_WIDTH
    return "└" + "".join(
        "┴" if column in branch_columns else "─"
        for column in range(first_column + 1, end_column + 1)
    )


def _describe_group(bit_group: BitField, attributes: int, theme: Theme) -> str:
    group_value = bit_group.extract_value(attributes)
    if bit_group.name == "unused":
        return theme.paint("dim", f"unused {group_value}")
    group_name = bit_group.name.replace("_", " ")
    description = f"{group_name} {group_value} = {bit_group.symbol(group_value)}"
    return theme.paint("flag", description) if group_value else description
