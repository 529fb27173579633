"""Options for decoding keys and values, shared by the commands that show records."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import click

from kfmt_cli.cli.options import CommandFunction


class PayloadFormatType(click.Choice[str]):
    """The name of a payload format; imports the formats on demand."""

    case_sensitive = True

    def __init__(self) -> None:
        """Do not store names; `choices` returns them."""

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of all payload formats."""
        from kfmt_cli.topics.payloads import PAYLOAD_FORMATS

        return tuple(PAYLOAD_FORMATS)


def add_payload_format_options(function: CommandFunction) -> CommandFunction:
    """Add --key-format, --value-format and their schemas, passed as `payloads`."""

    @wraps(function)
    def wrapper(
        key_format: str | None,
        key_schema: str | None,
        value_format: str | None,
        value_schema: str | None,
        schemas: Path | None,
        **arguments: Any,
    ) -> Any:
        from kfmt_cli.commands.payload_formats import payload_declarations

        key_declaration, value_declaration = (key_format, key_schema), (value_format, value_schema)
        return function(
            payloads=payload_declarations(
                key_declaration, value_declaration, schemas, arguments["paths"]
            ),
            **arguments,
        )

    command: CommandFunction = wrapper
    for payload_part in ("value", "key"):
        command = click.option(
            f"--{payload_part}-schema",
            metavar="FILE[:MESSAGE]",
            help=f"Schema of the {payload_part}: an Avro schema file, or a Protobuf descriptor "
            "set and "
            "message name.",
        )(command)
        command = click.option(
            f"--{payload_part}-format",
            type=PayloadFormatType(),
            help=f"How to decode the {payload_part}. If decoding fails, it is shown as stored.",
        )(command)
    return click.option(
        "--schemas",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="For confluent: a directory with ID.avsc, ID.desc or ID.json files, or a _schemas "
        "topic. [default: the _schemas topic in the same log directory as PATH]",
    )(command)


def add_decode_options(function: CommandFunction) -> CommandFunction:
    """Add the options of `add_payload_format_options` and --decode, for commands that decode into
    columns."""
    function_with_formats = add_payload_format_options(function)

    @wraps(function_with_formats)
    def wrapper(decode: bool, **arguments: Any) -> Any:
        if decode and arguments["value_format"] is None:
            arguments["value_format"] = "confluent"
        return function_with_formats(**arguments)

    return click.option(
        "--decode",
        is_flag=True,
        help="Same as --value-format confluent: decode values with schema registry schemas, as "
        "JSON in the column decoded_value. Internal topics are always decoded.",
    )(wrapper)
