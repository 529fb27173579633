"""The declared formats of keys and values, with the schemas that they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kfmt_cli.errors import unknown_name_error
from kfmt_cli.options.payload_options import DecodeOptions, PayloadOptions
from kfmt_cli.topics.payloads import (
    NO_DECLARATIONS,
    PAYLOAD_FORMATS,
    PayloadDeclaration,
    PayloadDeclarations,
    SchemaSource,
)

REGISTRY_FORMAT = "confluent"


def payload_declarations(options: PayloadOptions, paths: Sequence[str]) -> PayloadDeclarations:
    """The formats of keys and values; raises UsageError, InputError. paths: paths next to which to
    look for a topic _schemas, unless `options` names schemas."""
    value_format = options.value_format
    if value_format is None and isinstance(options, DecodeOptions) and options.decode:
        value_format = REGISTRY_FORMAT
    if options.key_format is None and value_format is None:
        return NO_DECLARATIONS
    declarations = PayloadDeclarations(
        *(
            _payload_declaration(format_, schema_reference, options.schemas, paths)
            for format_, schema_reference in (
                (options.key_format, options.key_schema),
                (value_format, options.value_schema),
            )
        )
    )
    _ = declarations.readers  # raises at once if something is missing
    return declarations


def _payload_declaration(
    format_: str | None,
    schema_reference: str | None,
    schemas_path: Path | None,
    paths: Sequence[str],
) -> PayloadDeclaration | None:
    if format_ is None:
        return None
    if format_ not in PAYLOAD_FORMATS:
        raise unknown_name_error("format", format_, PAYLOAD_FORMATS)
    schema_file, _, message_name = (schema_reference or "").partition(":")
    schema_directory, registry = schemas_path, None
    if format_ == REGISTRY_FORMAT:
        from kfmt_cli.commands.registry_schemas import find_registry_near, read_registry

        registry = (
            find_registry_near(paths) if schemas_path is None else read_registry(str(schemas_path))
        )
        schema_directory = schemas_path if registry is None else None
    schema_path = Path(schema_file).absolute() if schema_file else None
    schema_directory = None if schema_directory is None else schema_directory.absolute()
    return PayloadDeclaration(
        format_, SchemaSource(schema_path, message_name, schema_directory, registry)
    )
