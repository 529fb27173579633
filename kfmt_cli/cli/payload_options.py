"""Options for decoding keys and values, shared by the commands that show records."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import click

from kfmt_cli.cli.options import Function


class PayloadName(click.Choice[str]):
    """The name of a payload format; imports the formats on demand."""

    case_sensitive = True

    def __init__(self) -> None:
        """Leave the names to `choices`."""

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of all payload formats."""
        from kfmt_cli.topics.payloads import FORMATS

        return tuple(FORMATS)


def payload_formats(function: Function) -> Function:
    """Add --key-format, --value-format and their schemas, passed as `payloads`."""

    @wraps(function)
    def call(
        key_format: str | None,
        key_schema: str | None,
        value_format: str | None,
        value_schema: str | None,
        schemas: Path | None,
        **others: Any,
    ) -> Any:
        from kfmt_cli.commands.payload_formats import payloads_of

        key, value = (key_format, key_schema), (value_format, value_schema)
        return function(payloads=payloads_of(key, value, schemas, others["paths"]), **others)

    command: Function = call
    for name in ("value", "key"):
        command = click.option(
            f"--{name}-schema",
            metavar="FILE[:MESSAGE]",
            help=f"Schema of the {name}: an Avro schema file, or a Protobuf descriptor set and "
            "message name.",
        )(command)
        command = click.option(
            f"--{name}-format",
            type=PayloadName(),
            help=f"How to decode the {name}. If decoding fails, it is shown as stored.",
        )(command)
    return click.option(
        "--schemas",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="For confluent: a directory with ID.avsc, ID.desc or ID.json files, or a _schemas "
        "topic. [default: the _schemas topic in the same log directory as PATH]",
    )(command)


def decoded(function: Function) -> Function:
    """The same plus --decode, for commands that decode into columns."""
    inner = payload_formats(function)

    @wraps(inner)
    def call(decode: bool, **others: Any) -> Any:
        if decode and others["value_format"] is None:
            others["value_format"] = "confluent"
        return inner(**others)

    return click.option(
        "--decode",
        is_flag=True,
        help="Same as --value-format confluent: decode values with schema registry schemas, as "
        "JSON in the column decoded_value. Internal topics are always decoded.",
    )(call)
