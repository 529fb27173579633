"""Options of request-header and response-header."""

from __future__ import annotations

import click
from click.core import ParameterSource

from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import CommonOptions
from kfmt_cli.options.declaration import argument, command_options, option


def _none_if_default(ctx: click.Context, param: click.Parameter, value: bool) -> bool | None:
    """None if neither was given: click 8.2 turns a default of None into False."""
    is_explicit = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    return value if is_explicit else None


def _size_prefix_option() -> bool | None:
    """Declare --size-prefixed and --no-size."""
    return option(
        "--size-prefixed/--no-size",
        default=None,
        callback=_none_if_default,
        help="Whether each message has a size prefix. [default: detected]",
    )


@command_options(
    "request-header", "Decode request headers.", common=("wide", "format_", "table", "color")
)
class RequestHeaderOptions(CommonOptions):
    """Decode request headers as sent to a broker.

    The argument is hex digits, a file of hex digits, or a binary file such as a captured stream; -
    is standard input. Several size-prefixed requests are listed one per line. The header version
    follows from the API and its version.

    \b
    Examples:
      kfmt request-header 0000001b00120003000000070006636c69656e7400056b666d7404302e3100
      kfmt request-header 0003000900000001000361646d00 --no-size --json
    """

    source: str = argument("HEX|FILE")
    framed: bool | None = _size_prefix_option()


@command_options(
    "response-header", "Decode response headers.", common=("wide", "format_", "table", "color")
)
class ResponseHeaderOptions(CommonOptions):
    """Decode response headers as sent by a broker.

    A response does not identify its request or its header version, so pass them as options. Without
    them, kfmt assumes the oldest header, which has only a correlation id.

    \b
    Examples:
      kfmt response-header 00000007
      kfmt response-header 0000000700 --api Metadata --api-version 12
    """

    source: str = argument("HEX|FILE")
    api: str | None = option(default=None, help="API of the request, by name or number.")
    api_version: int | None = option(default=None, type=click.IntRange(min=0), help="API version.")
    framed: bool | None = _size_prefix_option()

    def __post_init__(self) -> None:
        if (self.api is None) != (self.api_version is None):
            raise UsageError("--api and --api-version must be given together")
