"""Options about what keys and values are, shared by the commands that show records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kfmt_cli.topics.payloads import Read

F = TypeVar("F", bound=Callable[..., Any])


class PayloadName(click.Choice[str]):
    """The name of a payload format. The formats are imported when one is asked for."""

    case_sensitive = True

    def __init__(self) -> None:
        """The names are not known yet."""

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the registry."""
        from kfmt_cli.topics.payloads import FORMATS

        return tuple(FORMATS)


def payload_formats(function: F) -> F:
    """--key-format, --value-format and their schemas: what reads keys and values, as `payloads`."""

    @wraps(function)
    def call(
        key_format: str | None,
        key_schema: str | None,
        value_format: str | None,
        value_schema: str | None,
        schemas: Path | None,
        **others: Any,
    ) -> Any:
        paths = others["paths"]
        of_key = reader_of(key_format, key_schema, schemas, paths)
        of_value = reader_of(value_format, value_schema, schemas, paths)
        return function(payloads=(of_key, of_value), **others)

    command: Any = call
    for name in ("value", "key"):
        command = click.option(
            f"--{name}-schema",
            metavar="FILE[:MESSAGE]",
            help=f"Schema of the {name}: an Avro file, or a Protobuf descriptor set and a message.",
        )(command)
        command = click.option(
            f"--{name}-format",
            type=PayloadName(),
            help=f"What the {name} is; where it does not decode, it is shown as it is stored.",
        )(command)
    made: F = click.option(
        "--schemas",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="For confluent: the directory with ID.avsc, ID.desc or ID.json, or a topic _schemas; "
        "without it, the topic _schemas in the same log directory as PATH.",
    )(command)
    return made


def reader_of(
    format_: str | None, schema: str | None, schemas: Path | None, paths: Sequence[str]
) -> tuple[str, Read] | None:
    """The name of a format and what reads a key or a value in it; raises UsageError, InputError.

    schemas: where those of a registry are; None for a topic _schemas next to the paths.
    """
    if format_ is None:
        return None
    from kfmt_cli.topics.payloads import FORMATS, Schema

    file, _, message = (schema or "").partition(":")
    folder, registry = schemas, None
    if format_ == "confluent":
        from kfmt_cli.commands.schemas_beside import registry_beside, registry_of

        registry = registry_beside(paths) if schemas is None else registry_of(str(schemas))
        folder = schemas if registry is None else None
    found = FORMATS[format_]
    return format_, found.reader(Schema(Path(file) if file else None, message, folder, registry))
