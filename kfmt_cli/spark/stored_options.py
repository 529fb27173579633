"""A job's selection as plain values for `_kfmt/job.json`, whose keys never change.

A later run with a different selection is rejected, because the table would mix their rows. 1.0.0rc1
stored the `repr` of its objects instead: `rc1_text` returns that text, with the names of 1.0.0rc1's
classes and attributes.
"""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

from kfmt_cli.log.selection.record_filter import Pattern, RecordFilter
from kfmt_cli.log.selection.regex import BytesRegex
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.topics.payloads import (
    PayloadDeclaration,
    PayloadDeclarations,
    RegisteredSchema,
    SchemaRegistry,
    SchemaSource,
)

PlainValues = dict[str, object]

# The names in 1.0.0rc1 of classes and their attributes, in order.
_RC1_NAMES: dict[type, tuple[str, str]] = {
    RecordFilter: ("Match", "key value headers producer_id"),
    BytesRegex: ("Expression", "text"),
    Selection: ("Selection", "first_offset last_offset first_time last_time match committed"),
    SelectionOptions: ("Asked", "wanted last committed latest"),
    PayloadDeclarations: ("Payloads", "key value"),
    PayloadDeclaration: ("Payload", "format schema"),
    SchemaSource: ("Schema", "file message folder registry"),
    SchemaRegistry: ("SchemaRegistry", "by_id by_version"),
    RegisteredSchema: ("Registered", "type text references"),
}


def record_filter_values(record_filter: RecordFilter) -> PlainValues | None:
    """A record filter; None if it excludes nothing."""
    if not record_filter:
        return None
    return {
        "key": _pattern_values(record_filter.key_pattern),
        "value": _pattern_values(record_filter.value_pattern),
        "headers": [
            [os.fsdecode(name), _pattern_values(pattern)]
            for name, pattern in record_filter.header_patterns
        ],
        "producer_id": record_filter.producer_id,
    }


def selection_values(options: SelectionOptions) -> PlainValues:
    """The selection of records in every partition."""
    selection = options.selection
    return {
        "offsets": [selection.first_offset, selection.last_offset],
        "times": [selection.first_time, selection.last_time],
        "match": record_filter_values(selection.record_filter),
        "last": options.n_last_records,
        "committed": options.only_committed,
        "latest": options.only_latest,
    }


def stored_payload_formats(declarations: PayloadDeclarations) -> PlainValues | None:
    """The declared formats of keys and values; None if there are none."""
    if not declarations:
        return None
    return {
        "key": _declaration_values(declarations.key),
        "value": _declaration_values(declarations.value),
    }


def rc1_text(value: Any) -> str:
    """The `repr` that a value had in 1.0.0rc1."""
    if is_dataclass(value) and type(value) in _RC1_NAMES:
        class_name, member_names = _RC1_NAMES[type(value)]
        names = member_names.split()  # later members follow these
        members = fields(value)[: len(names)]
        member_texts = [rc1_text(getattr(value, member.name)) for member in members]
        pairs = zip(names, member_texts, strict=True)
        return f"{class_name}({', '.join(f'{member}={text}' for member, text in pairs)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(rc1_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        pairs_text = ", ".join(
            f"{rc1_text(key)}: {rc1_text(dict_value)}" for key, dict_value in value.items()
        )
        return f"{{{pairs_text}}}"
    return repr(value)


def _pattern_values(pattern: Pattern | None) -> PlainValues | None:
    if pattern is None:
        return None
    if isinstance(pattern, BytesRegex):
        return {"regex": os.fsdecode(pattern.pattern)}
    return {"equals": os.fsdecode(pattern)}


def _declaration_values(declaration: PayloadDeclaration | None) -> PlainValues | None:
    if declaration is None:
        return None
    schema = declaration.schema_source
    registry_hash = None
    if schema.registry is not None:  # by its content, which determines the decoded values
        registry_hash = blake2b(rc1_text(schema.registry).encode(), digest_size=12).hexdigest()
    return {
        "format": declaration.format_name,
        "file": None if schema.file is None else str(schema.file),
        "message": schema.message_name,
        "directory": None if schema.directory is None else str(schema.directory),
        "registry": registry_hash,
    }
