"""The fields of a format, one per row, as in `format` and the page of formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.layout.field import MS_UNIT, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import DeclaredListType, StructWireType
from kfmt_cli.core.layout.wire_types import ArrayWireType, IntegerWireType, WireType
from kfmt_cli.rows.documents import FORMAT_ROW, build_row


@dataclass(frozen=True, slots=True)
class FormatEntry:
    """A field or a part of one: its path in the structure, and its start if known."""

    path: tuple[str, ...]
    start: int | None
    type: str
    versions: str
    meaning: str
    bits: str = ""
    """The range of bits it occupies in a field."""


def iter_format_entries(layout: Layout) -> Iterator[FormatEntry]:
    """The fields of a structure, including fields of nested structures, and their bits."""
    # The start of a field in a message depends on the version.
    yield from _iter_entries(layout, (), layout, None if layout.versions or layout.is_text else 0)


def _iter_entries(
    layout: Layout, path: tuple[str, ...], root_layout: Layout, position: int | None
) -> Iterator[FormatEntry]:
    for field in layout.fields:
        field_path = (*path, field.name)
        nested_layout = _nested_layout(field.type)
        type_name = _type_name(field.type)
        if root_layout.is_text:
            type_name = "number" if isinstance(field.type, IntegerWireType) else "text"
        yield FormatEntry(
            field_path,
            position,
            type_name,
            _describe_versions(field, root_layout),
            describe_field(field),
        )
        for bit_field in field.flags:
            last_bit = bit_field.shift + bit_field.width - 1
            bits_label = (
                f"bit {bit_field.shift}"
                if last_bit == bit_field.shift
                else f"bits {bit_field.shift}–{last_bit}"
            )
            numbered_symbols = ", ".join(
                f"{symbol_number} {symbol}"
                for symbol_number, symbol in enumerate(bit_field.symbols or ("no", "yes"))
            )
            yield FormatEntry(
                (*field_path, bit_field.name),
                None,
                "bits",
                "",
                f"{bit_field.doc} {numbered_symbols}.",
                bits_label,
            )
        if nested_layout is not None:
            yield from _iter_entries(nested_layout, field_path, root_layout, None)
        field_size = field.type.size
        position = None if position is None or field_size is None else position + field_size


def _nested_layout(type_: WireType) -> Layout | None:
    """The structure that a field contains, alone or as a list."""
    nested_type = (
        type_.element_type
        if isinstance(type_, DeclaredListType)
        else type_.layout
        if isinstance(type_, StructWireType)
        else None
    )
    return nested_type if isinstance(nested_type, Layout) else None


def _type_name(type_: WireType) -> str:
    if isinstance(type_, DeclaredListType):
        return (
            "list"
            if isinstance(type_.element_type, Layout)
            else f"list of {type_.element_type.name}"
        )
    if isinstance(type_, StructWireType):
        return "structure"
    if isinstance(type_, ArrayWireType):
        return f"list of {type_.row_layout.name}"
    return type_.name


def _describe_versions(field: Field, root_layout: Layout) -> str:
    """The versions of the message that have a field, and its form, if these vary."""
    if root_layout.versions is None:
        return ""
    first_version, last_version = root_layout.versions
    descriptions = []
    if field.since > first_version or (field.until is not None and field.until < last_version):
        until_text = "+" if field.until is None else f"–{field.until}"
        descriptions.append(
            str(field.since) if field.until == field.since else f"{field.since}{until_text}"
        )
    if field.nullable_since is not None:
        since_text = (
            ""
            if field.nullable_since <= max(field.since, first_version)
            else f" {field.nullable_since}+"
        )
        descriptions.append(f"nullable{since_text}")
    if field.tag is not None:
        descriptions.append(f"tag {field.tag}")
    return ", ".join(descriptions)


def describe_field(field: Field) -> str:
    """The description of a field, with the meanings of its numbers and its unit."""
    unit_text = f" ({field.unit})" if field.unit == MS_UNIT else ""
    numbered_symbols = [f"{i} {name}" for i, name in enumerate(field.symbols or ()) if name]
    symbols_text = f" {', '.join(numbered_symbols)}." if numbered_symbols else ""
    contained_text = (
        f" Contains a {field.embedded_message.layout.name}."
        if field.embedded_message is not None
        else ""
    )
    return f"{field.doc}{contained_text}{symbols_text}{unit_text}"


def describe_size(layout: Layout) -> str:
    """The size of a structure, or the versions of a message."""
    if layout.versions is not None:
        first_version, last_version = layout.versions
        versions_text = (
            f"version {first_version}"
            if first_version == last_version
            else f"versions {first_version} to {last_version}"
        )
        flexible_since = layout.flexible_since
        return (
            versions_text
            if flexible_since is None
            else f"{versions_text}, tagged fields since {flexible_since}"
        )
    if layout.is_text:
        return "text"
    return "" if layout.size is None else f"{layout.size} bytes"


def layout_row(layout: Layout, chapter_title: str) -> dict[str, object]:
    """A format as a JSON object. chapter_title: the title of its chapter."""
    overrides = {
        "chapter": chapter_title,
        "size": None if layout.versions is not None or layout.is_text else layout.size,
        "versions": None if layout.versions is None else list(layout.versions),
        "meaning": layout.doc,
    }
    return build_row(FORMAT_ROW, layout, overrides)


def layout_field_row(layout: Layout, entry: FormatEntry) -> dict[str, object]:
    """A field of a format as a JSON object."""
    return {
        "format": layout.name,
        "offset": entry.start,
        "field": ".".join(entry.path),
        "wire_type": entry.type,
        "bits": entry.bits or None,
        "versions": entry.versions or None,
        "meaning": entry.meaning,
    }
