"""Resolves versioned messages: the fields of a version and their encoding.

Source: KIP-482, and `clients/src/main/resources/common/message/README.md` of Kafka.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import (
    DeclaredLengthType,
    DeclaredListType,
    ListWireType,
    StructWireType,
)
from kfmt_cli.core.layout.tagged import TaggedFields
from kfmt_cli.core.layout.wire_types import COMPACT, Int32, WireType


@cache
def layout_at_version(message_layout: Layout, version: int) -> Layout:
    """The Layout of one version of a message; raises ValueError for an unknown one."""
    first_version, last_version = message_layout.versions or (0, 0)
    if not first_version <= version <= last_version:
        raise ValueError(
            f"{message_layout.name} has versions {first_version} to {last_version}, not {version}"
        )
    return _resolve_structure(message_layout, version, message_layout.flexible_since)


def _resolve_structure(layout: Layout, version: int, flexible_since: int | None) -> Layout:
    """The Layout of a message, or of a structure in it, in a version."""
    is_flexible = flexible_since is not None and version >= flexible_since
    fields: list[Field] = []
    field_by_tag: dict[int, Field] = {}
    for field in layout.fields:
        if not field.is_in_version(version):
            continue
        is_nullable = field.nullable_since is not None and version >= field.nullable_since
        compact_since = None if field.classic else flexible_since
        resolved_field = replace(
            field, type=_resolve_type(field.type, version, compact_since, is_nullable)
        )
        if field.tag is not None and version >= field.tagged_since:
            if isinstance(resolved_field.type, StructWireType):
                resolved_field = replace(
                    resolved_field, type=replace(resolved_field.type, is_tagged=True)
                )
            field_by_tag[field.tag] = resolved_field
        else:
            fields.append(resolved_field)
    return Layout(
        layout.name,
        layout.doc,
        layout.source,
        tuple(fields),
        tagged_fields=TaggedFields(field_by_tag) if is_flexible else None,
    )


def _resolve_type(
    type_: WireType, version: int, flexible_since: int | None, is_nullable: bool
) -> WireType:
    """The wire type of a declared type in a version; other types are returned unchanged."""
    is_flexible = flexible_since is not None and version >= flexible_since
    if isinstance(type_, DeclaredLengthType):
        return type_.to_wire_type(is_flexible, is_nullable)
    if isinstance(type_, StructWireType):
        return StructWireType(
            _resolve_structure(type_.layout, version, flexible_since), is_nullable
        )
    if isinstance(type_, DeclaredListType):
        element_type: WireType
        if isinstance(type_.element_type, Layout):
            element_type = StructWireType(
                _resolve_structure(type_.element_type, version, flexible_since)
            )
        else:
            element_type = _resolve_type(type_.element_type, version, flexible_since, False)
        return ListWireType(COMPACT if is_flexible else Int32, element_type, is_nullable)
    return type_
