"""Options for decoding keys and values, shared by the commands that show records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kfmt_cli.options.declaration import option, options_class


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


def _format_option(payload_part: str) -> Any:
    return option(
        default=None,
        type=PayloadFormatType(),
        help=f"How to decode the {payload_part}. If decoding fails, it is shown as stored.",
    )


def _schema_option(payload_part: str) -> Any:
    return option(
        default=None,
        metavar="FILE[:MESSAGE]",
        help=f"Schema of the {payload_part}: an Avro schema file, or a Protobuf descriptor set and "
        "message name.",
    )


@options_class
class PayloadOptions:
    """Options for the formats of keys and values; `payload_declarations` parses them."""

    schemas: Path | None = option(
        default=None,
        type=click.Path(path_type=Path),
        metavar="DIR",
        envvar="KFMT_SCHEMAS",
        help="For confluent: a directory with ID.avsc, ID.desc or ID.json files, a _schemas topic, "
        "or .json files with a registry's responses, such as to GET /schemas. [default: the "
        "_schemas "
        "topic in the same log directory as PATH]",
    )
    key_format: str | None = _format_option("key")
    key_schema: str | None = _schema_option("key")
    value_format: str | None = _format_option("value")
    value_schema: str | None = _schema_option("value")


@options_class
class DecodeOptions(PayloadOptions):
    """The same for commands that decode into columns."""

    decode: bool = option(
        default=False,
        help="Same as --value-format confluent: decode values with schema registry schemas, as "
        "JSON in the column decoded_value. Internal topics are always decoded.",
    )
