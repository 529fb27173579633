"""Versioned messages in Kafka's own notation: the fields of each version and their encoding.

Source: KIP-482, and `clients/src/main/resources/common/message/README.md` of Kafka.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import List, ListOf, Stated, Struct
from kfmt_cli.core.layout.tagged import TaggedFields
from kfmt_cli.core.layout.wire import COMPACT, Int32, WireType


@cache
def at_version(message: Layout, version: int) -> Layout:
    """The Layout of one version of a message; raises ValueError for an unknown one."""
    first, last = message.versions or (0, 0)
    if not first <= version <= last:
        raise ValueError(f"{message.name} has versions {first} to {last}, not {version}")
    return _of_version(message, version, message.flexible_since)


def _of_version(layout: Layout, version: int, flexible_since: int | None) -> Layout:
    """The Layout of a message, or of a part of one, in a version."""
    flexible = flexible_since is not None and version >= flexible_since
    fields: list[Field] = []
    tagged: dict[int, Field] = {}
    for field in layout.fields:
        if not field.is_in(version):
            continue
        nullable = field.nullable_since is not None and version >= field.nullable_since
        compact_since = None if field.classic else flexible_since
        here = replace(field, type=_laid_down(field.type, version, compact_since, nullable))
        if field.tag is not None and version >= field.tagged_since:
            if isinstance(here.type, Struct):
                here = replace(here, type=replace(here.type, in_tag=True))
            tagged[field.tag] = here
        else:
            fields.append(here)
    return Layout(
        layout.name,
        layout.doc,
        layout.source,
        tuple(fields),
        tagged=TaggedFields(tagged) if flexible else None,
    )


def _laid_down(
    type_: WireType, version: int, flexible_since: int | None, nullable: bool
) -> WireType:
    """The wire type, in a version, of a type that a definition names."""
    flexible = flexible_since is not None and version >= flexible_since
    if isinstance(type_, Stated):
        return type_.laid_down(flexible, nullable)
    if isinstance(type_, Struct):
        return Struct(_of_version(type_.of, version, flexible_since), nullable)
    if isinstance(type_, ListOf):
        inner: WireType
        if isinstance(type_.of, Layout):
            inner = Struct(_of_version(type_.of, version, flexible_since))
        else:
            inner = _laid_down(type_.of, version, flexible_since, False)
        return List(COMPACT if flexible else Int32, inner, nullable)
    return type_
