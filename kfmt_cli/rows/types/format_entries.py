"""The fields of a format, one per row, as in `format` and the page of formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, Struct
from kfmt_cli.core.layout.wire import Array, Integer, WireType
from kfmt_cli.rows.documents import FORMAT, row_of


@dataclass(frozen=True, slots=True)
class Entry:
    """A field or a part of one: its path in the structure, and its start if known."""

    path: tuple[str, ...]
    at: int | None
    type: str
    versions: str
    meaning: str
    bits: str = ""
    """The range of bits it occupies in a field."""


def entries_of(layout: Layout) -> Iterator[Entry]:
    """The fields of a structure, including fields of nested structures, and their bits."""
    # The start of a field in a message depends on the version.
    yield from _entries(layout, (), layout, None if layout.versions or layout.text else 0)


def _entries(
    layout: Layout, path: tuple[str, ...], message: Layout, at: int | None
) -> Iterator[Entry]:
    for field in layout.fields:
        here = (*path, field.name)
        inner = _inner(field.type)
        type_ = _type_name(field.type)
        if message.text:
            type_ = "number" if isinstance(field.type, Integer) else "text"
        yield Entry(here, at, type_, _versions(field, message), meaning_of(field))
        for bits in field.flags:
            last = bits.at + bits.width - 1
            place = f"bit {bits.at}" if last == bits.at else f"bits {bits.at}–{last}"
            names = ", ".join(f"{i} {name}" for i, name in enumerate(bits.symbols or ("no", "yes")))
            yield Entry((*here, bits.name), None, "bits", "", f"{bits.doc} {names}.", place)
        if inner is not None:
            yield from _entries(inner, here, message, None)
        size = field.type.size
        at = None if at is None or size is None else at + size


def _inner(type_: WireType) -> Layout | None:
    """The structure that a field contains, alone or as a list."""
    of = type_.of if isinstance(type_, ListOf | Struct) else None
    return of if isinstance(of, Layout) else None


def _type_name(type_: WireType) -> str:
    if isinstance(type_, ListOf):
        return "list" if isinstance(type_.of, Layout) else f"list of {type_.of.name}"
    if isinstance(type_, Struct):
        return "structure"
    if isinstance(type_, Array):
        return f"list of {type_.of.name}"
    return type_.name


def _versions(field: Field, message: Layout) -> str:
    """The versions of the message that have a field, and its form, if these vary."""
    if message.versions is None:
        return ""
    first, last = message.versions
    words = []
    if field.since > first or (field.until is not None and field.until < last):
        until = "+" if field.until is None else f"–{field.until}"
        words.append(str(field.since) if field.until == field.since else f"{field.since}{until}")
    if field.nullable_since is not None:
        since = (
            "" if field.nullable_since <= max(field.since, first) else f" {field.nullable_since}+"
        )
        words.append(f"nullable{since}")
    if field.tag is not None:
        words.append(f"tag {field.tag}")
    return ", ".join(words)


def meaning_of(field: Field) -> str:
    """The text for a field, with the names of its numbers and its unit."""
    unit = f" ({field.unit})" if field.unit == MILLISECONDS else ""
    named = [f"{i} {name}" for i, name in enumerate(field.symbols or ()) if name]
    names = f" {', '.join(named)}." if named else ""
    held = f" Contains a {field.holds.message.name}." if field.holds is not None else ""
    return f"{field.doc}{held}{names}{unit}"


def size_words(layout: Layout) -> str:
    """The size of a structure, or the versions of a message."""
    if layout.versions is not None:
        first, last = layout.versions
        words = f"version {first}" if first == last else f"versions {first} to {last}"
        flexible = layout.flexible_since
        return words if flexible is None else f"{words}, tagged fields since {flexible}"
    if layout.text:
        return "text"
    return "" if layout.size is None else f"{layout.size} bytes"


def format_row(layout: Layout, chapter: str) -> dict[str, object]:
    """A format as a JSON object. chapter: the one it belongs to."""
    known = {
        "chapter": chapter,
        "size": None if layout.versions is not None or layout.text else layout.size,
        "versions": None if layout.versions is None else list(layout.versions),
        "meaning": layout.doc,
    }
    return row_of(FORMAT, layout, known)


def field_row(layout: Layout, entry: Entry) -> dict[str, object]:
    """A field of a format as a JSON object."""
    return {
        "format": layout.name,
        "offset": entry.at,
        "field": ".".join(entry.path),
        "wire_type": entry.type,
        "bits": entry.bits or None,
        "versions": entry.versions or None,
        "meaning": entry.meaning,
    }
