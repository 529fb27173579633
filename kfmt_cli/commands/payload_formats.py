"""The declared formats of keys and values, with the schemas that they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kfmt_cli.commands.registry_schemas import registry_beside, registry_of
from kfmt_cli.errors import unknown_name
from kfmt_cli.topics.payloads import FORMATS, NOTHING_SAID, Payload, Payloads, Schema

REGISTRY = "confluent"
Declared = tuple[str | None, str | None]
"""A format, and `FILE[:MESSAGE]` of its schema; None where none was declared."""


def payloads_of(
    key: Declared, value: Declared, schemas: Path | None, paths: Sequence[str]
) -> Payloads:
    """The formats of keys and values; raises UsageError, InputError.

    schemas: directory or topic of registry schemas; None for a topic _schemas next to the paths.
    """
    if key[0] is None and value[0] is None:
        return NOTHING_SAID
    found = Payloads(*(_payload(*declared, schemas, paths) for declared in (key, value)))
    _ = found.readers  # raises at once if something is missing
    return found


def _payload(
    format_: str | None, schema: str | None, schemas: Path | None, paths: Sequence[str]
) -> Payload | None:
    if format_ is None:
        return None
    if format_ not in FORMATS:
        raise unknown_name("format", format_, FORMATS)
    file, _, message = (schema or "").partition(":")
    folder, registry = schemas, None
    if format_ == REGISTRY:
        registry = registry_beside(paths) if schemas is None else registry_of(str(schemas))
        folder = schemas if registry is None else None
    path = Path(file).absolute() if file else None
    folder = None if folder is None else folder.absolute()
    return Payload(format_, Schema(path, message, folder, registry))
