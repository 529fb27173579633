"""Options of request-header and response-header."""

from __future__ import annotations

import click
from click.core import ParameterSource

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options
from kfmt_cli.errors import UsageError


def _none_if_default(ctx: click.Context, param: click.Parameter, value: bool) -> bool | None:
    """None if neither was given: click 8.2 turns a default of None into False."""
    is_explicit = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    return value if is_explicit else None


_size_prefix_option = click.option(
    "--size-prefixed/--no-size",
    "framed",
    default=None,
    callback=_none_if_default,
    help="Whether each message has a size prefix. [default: detected]",
)


@grouped_command(name="request-header", short_help="Decode request headers.")
@click.argument("source", metavar="HEX|FILE")
@_size_prefix_option
@common_options("wide", "format", "color")
def request_header(
    source: str,
    framed: bool | None,
    common: CommonOptions,
) -> None:
    """Decode request headers as sent to a broker.

    The argument is hex digits, a file of hex digits, or a binary file such as a captured stream; -
    is standard input. Several size-prefixed requests are listed one per line. The header version
    follows from the API and its version.

    \b
    Examples:
      kfmt request-header 0000001b00120003000000070006636c69656e7400056b666d7404302e3100
      kfmt request-header 0003000900000001000361646d00 --no-size --json
    """
    from kfmt_cli.commands.protocol_headers.command import (
        REQUEST_HEADER_ROW,
        iter_request_headers,
        read_bytes_argument,
        show_headers,
    )

    run = common.start_run()
    with run.catch_input_errors():
        name, data = read_bytes_argument(source)
        show_headers(run, name, data, list(iter_request_headers(data, framed)), REQUEST_HEADER_ROW)


@grouped_command(name="response-header", short_help="Decode response headers.")
@click.argument("source", metavar="HEX|FILE")
@click.option("--api", help="API of the request, by name or number.")
@click.option("--api-version", type=click.IntRange(min=0), help="API version.")
@_size_prefix_option
@common_options("wide", "format", "color")
def response_header(
    source: str,
    api: str | None,
    api_version: int | None,
    framed: bool | None,
    common: CommonOptions,
) -> None:
    """Decode response headers as sent by a broker.

    A response does not identify its request or its header version, so pass them as options. Without
    them, kfmt assumes the oldest header, which has only a correlation id.

    \b
    Examples:
      kfmt response-header 00000007
      kfmt response-header 0000000700 --api Metadata --api-version 12
    """
    from kfmt_cli.commands.protocol_headers.command import (
        RESPONSE_HEADER_ROW,
        iter_response_headers,
        parse_api,
        read_bytes_argument,
        show_headers,
    )

    if (api is None) != (api_version is None):
        raise UsageError("--api and --api-version must be given together")
    api_spec = parse_api(api)
    if api_spec is not None and api_version is not None and api_version > api_spec.last_version:
        raise UsageError(
            f"{api_spec.name} has versions up to {api_spec.last_version}, not {api_version}"
        )
    header_version = (
        0
        if api_spec is None or api_version is None
        else api_spec.response_header_version(api_version)
    )
    run = common.start_run()
    with run.catch_input_errors():
        name, data = read_bytes_argument(source)
        show_headers(
            run,
            name,
            data,
            list(iter_response_headers(data, framed, header_version)),
            RESPONSE_HEADER_ROW,
        )
