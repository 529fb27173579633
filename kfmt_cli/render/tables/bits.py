"""The attribute bits of a batch, drawn: every bit, its name, its value."""

from __future__ import annotations

from kfmt_cli.core.layout.field import Bits
from kfmt_cli.formats.batch import ATTRIBUTES
from kfmt_cli.formats.legacy import ATTRIBUTES_V0, ATTRIBUTES_V1
from kfmt_cli.render.style import Theme
from kfmt_cli.rows.log_tables import BatchTable

CELL = 3  # columns per bit


BY_MAGIC = ((ATTRIBUTES_V0, 8), (ATTRIBUTES_V1, 8), (ATTRIBUTES, 16))


def batch_bits(batches: BatchTable, i: int, theme: Theme) -> str:
    """The attribute bits of batch i, under a line that identifies it."""
    magic, raw = int(batches.magic[i]), int(batches.attributes[i])
    flags, width = BY_MAGIC[magic]
    base, last = batches.base_offset[i], batches.last_offset[i]
    offsets = f"{base}–{last}"
    if not batches.has_base_offset[i]:
        offsets = f"…{last}"
    elif base == last:
        offsets = f"{base}"
    title = (
        f" batch at {batches.position[i]}, offsets {offsets}, magic {magic}    "
        f"attributes 0x{raw & (1 << width) - 1:0{width // 4}x}"
    )
    return "\n".join([title, *draw(flags, raw, width, theme), "", ""])


def draw(flags: tuple[Bits, ...], raw: int, width: int, theme: Theme) -> list[str]:
    """Lines for an attributes field of `width` bits with the value `raw`.

    The bits are in one row, the highest first; a line leads from each named group down to its name,
    value and meaning.
    """
    raw &= (1 << width) - 1
    numbers = "".join(f"{bit:>{CELL}}" for bit in reversed(range(width)))
    values = "".join(_bit(raw >> bit & 1, theme) for bit in reversed(range(width)))
    lines = [theme.paint("dim", f"  {numbers}"), f"  {values}"]
    named = sorted(flags, key=lambda bits: bits.at)
    used = max(bits.at + bits.width for bits in named)
    groups = [*named]
    if used < width:
        groups.append(Bits("unused", used, width - used))
    for i, bits in enumerate(groups):
        rails = "".join(_rail(other, width) for other in reversed(groups[i + 1 :]))
        rails = rails.ljust(_column(bits.at + bits.width - 1, width))
        lines.append("  " + rails + _leader(bits, width) + " " + _words(bits, raw, theme))
    return lines


def _bit(value: int, theme: Theme) -> str:
    cell = f"{value:>{CELL}}"
    return theme.paint("flag", cell) if value else cell


def _column(bit: int, width: int) -> int:
    """Column of a bit's digit."""
    return (width - 1 - bit) * CELL + CELL - 1


def _rail(bits: Bits, width: int) -> str:
    """The part of a line that continues down from a later group."""
    first = _column(bits.at + bits.width - 1, width)
    before = 0 if bits.at + bits.width == width else _column(bits.at + bits.width, width) + 1
    return " " * (first - before) + "│".ljust(_column(bits.at, width) - first + 1)


def _leader(bits: Bits, width: int) -> str:
    """The line from a group of bits to its text on the right."""
    first = _column(bits.at + bits.width - 1, width)
    joints = {_column(bit, width) for bit in range(bits.at, bits.at + bits.width)} - {first}
    end = width * CELL
    return "└" + "".join("┴" if column in joints else "─" for column in range(first + 1, end + 1))


def _words(bits: Bits, raw: int, theme: Theme) -> str:
    value = bits.of(raw)
    if bits.name == "unused":
        return theme.paint("dim", f"unused {value}")
    name = bits.name.replace("_", " ")
    words = f"{name} {value} = {bits.symbol(value)}"
    return theme.paint("flag", words) if value else words
